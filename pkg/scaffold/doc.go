// Package scaffold generates the files of a profile repository other than its profiles: the
// README, the file of owners, CI, and the ProfileSource that follows it. It writes them
// into a folder without overwriting files, and commits them on request.
//
// Start with Repository in repository.go.
package scaffold
