// Package meter counts what one execution of templates uses up, in units of work and in
// bytes, and stops it at limits that are the same on every machine: text/template cannot
// be canceled, and a clock would make the outcome depend on load. It also bounds how
// many renderings that need much run beside each other: see Rooms.
package meter
