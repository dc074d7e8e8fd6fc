// Package render turns a profile and the facts about one pool into the
// documents a node boots from.
//
// It is a pure function of its Input: no clock, randomness, environment, network
// or cluster. The reconciler and `osm-gitops render` call the same function, so
// the diff a reviewer approves is the user-data the node receives.
//
// Everything is rendered twice: once with a fixed text in place of every
// credential, which gives the OperatingSystemConfig and the digests of a
// Record, and once with the real values, which gives the two documents. Error
// messages come from the first run, so they hold no credential.
//
// Start with Engine.Render in render.go. What templates may read is documented in
// data.go. Packages below internal know the rest: templates how they are parsed and
// executed, taint what they may do with credentials, funcs what they may call, meter what
// an execution may take, settings the controller's flags and what of them is a credential,
// userdata how documents are written, cloudprovider the configuration of cloud providers,
// and invalid how errors say what to change.
package render
