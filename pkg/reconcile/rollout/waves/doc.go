// Package waves decides how far a version of a profile has been rolled out, wave by wave, and
// says it in conditions, events and messages. It is pure: the state of pools and machines and
// the time are given, and it reads and writes no objects. Start with NextStatus.
package waves
