// Package comparison compares two versions of a profile, or two renderings of a pool, as
// unified diffs of bounded size without credentials (security.md 15) and control characters
// (security.md 28).
package comparison
