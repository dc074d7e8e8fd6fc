//go:build race

package funcs

// raceDetector tells tests that measure memory that sync.Pool drops items at random.
const raceDetector = true
