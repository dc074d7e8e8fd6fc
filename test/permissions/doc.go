// Package permissions reads what deploy/ allows the controller, with the reasons that stand
// there, and from an API server's audit log what of it was used and what was refused.
package permissions
