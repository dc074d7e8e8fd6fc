// Package takeover decides what happens to the objects that another controller made for a
// pool: the reference, whose names and annotations are the same. It knows its objects by
// their annotations, keeps a document that means the same to a machine as ours, and has the
// rest wait while a machine may be booting from it. It is given objects and reads no
// cluster. Start with MadeByReference and Compare.
package takeover
