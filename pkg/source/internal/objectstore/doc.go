// Package objectstore reads Git's objects from packs and files: trees, commits and files
// by id. All returned content was hashed and matches its id.
//
// Start reading at Objects. go-git reads Git's formats; objects are read below an os.Root,
// which go-git's storage does not support.
package objectstore
