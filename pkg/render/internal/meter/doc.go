// Package meter counts the work and the bytes of one execution of templates, and stops it at
// limits that are the same on every machine: text/template cannot be canceled, and with a clock
// the result would depend on load. It also limits how many large renderings run concurrently:
// see MemorySlots.
package meter
