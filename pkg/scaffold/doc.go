// Package scaffold knows what a repository of profiles has beside its profiles: the
// README, the file of owners, CI, the ProfileSource that follows it. It writes them
// into a folder without ever overwriting a file, and commits them if asked to.
//
// Start with Repository in repository.go.
package scaffold
