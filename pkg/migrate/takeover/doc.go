// Package takeover decides what happens to the objects that the reference, which uses the
// same names and annotations, created for a pool. It recognizes these objects by their
// annotations, retains documents that are equivalent to ours, and delays the replacement of
// the others while a machine may be booting from them. It works on given objects and reads
// no cluster. Start with IsCreatedByOSM and Compare.
package takeover
