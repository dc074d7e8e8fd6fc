// Package verbs has the commands of daily operations: get and history, and those of package
// change. Each uses the permissions of the current user, and can print the kubectl command that
// does the same.
//
// What pools have is what the audit page and trace say. Start reading at Commands.
package verbs
