// Package invalid has the error that every part of rendering returns: what to change in a
// profile, a pool or a setting, and where that is written. Its messages are short and contain
// no credentials.
package invalid
