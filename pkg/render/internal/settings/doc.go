// Package settings knows the controller's flags that a node notices: which values nodes can use
// and which hardly do what was meant, the configuration of containerd that follows from them,
// and which parts of them are credentials. It knows no profile and no pool. Start with
// Settings.
package settings
