// Package objectid computes the ids of Git's objects, with a SHA-1 that detects the known
// collision attacks, and recognizes ids in text. It reads no objects.
//
// Start reading at Sum.
package objectid
