// Package templates parses and executes the templates of a profile's stages, within limits: it
// counts their steps, and never reads a clock. It knows neither the data that the templates
// read nor what happens to the files. Compiler and Stage are in compile.go, Execution in
// execute.go. Everything else works on the parsed trees: steps.go makes templates count their
// steps, shape.go compares two renderings, marks.go finds the executed parts, and check.go
// finds fields that the data does not have.
package templates
