// Package mirrored compares the downloads of profiles with the items that a site without Internet
// access has mirrored, from a list in a file. It downloads nothing. Start with Check in mirrored.go.
package mirrored
