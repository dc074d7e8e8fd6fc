// Package fault has the error classes that the packages below pkg/source share, and
// bounds and escapes the text of others that goes into messages.
package fault
