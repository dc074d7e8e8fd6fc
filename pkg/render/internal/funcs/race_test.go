//go:build race

package funcs

// raceDetector is true if sync.Pool drops items at random, for tests that measure memory.
const raceDetector = true
