// Package dump is the format of the file that osm-gitops trace --dump writes: the objects of chains, without
// credentials, in place of a live cluster.
//
// Start with Writer and Read. Package inspect/offline fills such a file and answers from it.
package dump
