// Package session opens the clusters of a verb with its flags, and reads the objects that its
// arguments name. Its errors say what to do, and propose names that exist.
package session
