// Package templates parses and executes the templates of a profile's stages, within limits:
// it counts what they do, and never asks a clock. It does not know what the data is that
// they read, or what becomes of the files. Compiler and Stage are in compile.go, Execution
// in execute.go. Everything else is about the parsed trees: ticks.go makes templates count
// what they do, shape.go compares two renderings, marks.go finds what was executed, and
// check.go looks for fields that the data does not have.
package templates
