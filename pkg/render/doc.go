// Package render turns a profile and the facts about one pool into the documents that a node
// boots from.
//
// It is a pure function of its Input: no clock, randomness, environment, network or cluster.
// The reconciler and `osm-gitops render` call the same function, so the diff that a reviewer
// approves is the user-data that the node receives.
//
// Everything is rendered twice: once with a fixed text in place of every credential, which
// gives the OperatingSystemConfig and the digests of a Record, and once with the real values,
// which gives the two documents. Error messages come from the first run, so they contain no
// credential.
//
// Start with Engine.Render in render.go. data.go documents the fields that templates can read.
// The packages below internal contain the details: templates parses and executes templates,
// taint decides what templates can do with credentials, funcs has the functions that they can
// call, meter limits the resources of an execution, settings has the controller's flags and
// finds the credentials in them, userdata writes the documents, cloudprovider writes the
// configuration of cloud providers, and invalid has the errors that say what to change.
package render
