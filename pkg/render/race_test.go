//go:build race

package render

// RaceDetector is true if sync.Pool drops items at random, for tests that measure memory.
const RaceDetector = true
