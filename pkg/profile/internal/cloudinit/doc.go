// Package cloudinit lists the modules of cloud-init that a profile can have: whether they
// are set, and how they are copied and appended to. It renders nothing. Start with Modules.
package cloudinit
