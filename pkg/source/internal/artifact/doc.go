// Package artifact reads profile files out of the archives that Flux's source-controller
// serves: it downloads one, compares its digest, and reads it without unpacking it. Downloads
// and tar files are read by own code, because the address of the server has to be checked
// before it is asked, and because github.com/fluxcd/pkg/tar unpacks to disk.
//
// Start reading at Server.Read.
package artifact
