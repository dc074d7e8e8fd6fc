// Package permissions reads the rights of the controller in deploy/, with the reasons in their
// comments, and from an API server's audit log which rights were used and which requests denied.
package permissions
