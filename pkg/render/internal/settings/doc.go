// Package settings has the controller's flags that change what a node gets. It decides which
// values nodes can use and which can hardly have the intended effect, generates the
// configuration of containerd from them, and finds the credentials in them. It does not depend
// on profiles or pools. Start with Settings.
package settings
