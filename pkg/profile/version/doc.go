// Package version reads and orders versions of profiles, and what selects among them: a
// version or a range. It knows no files. Start with Parse.
package version
