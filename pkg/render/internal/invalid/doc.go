// Package invalid has the error that every part of rendering returns: what in a
// profile, a pool or a setting to change, and where that is written. Its messages
// are short and hold no credentials.
package invalid
