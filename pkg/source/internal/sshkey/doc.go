// Package sshkey has private keys for ssh and the servers that each can be used with. A
// server proves its identity by known_hosts before the key is used. It connects to nothing.
//
// Start reading at Parse, then Key.HostKeys.
package sshkey
