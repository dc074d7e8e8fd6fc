// Package operators tests what people ask of a cluster: doctor, trace, verify, audit logs, admission and
// the verbs that run in pipelines.
package operators
