// Package fault has the error classes that the packages below pkg/source share, and
// limits and escapes foreign text in messages.
package fault
