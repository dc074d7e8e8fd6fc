//go:build race

package render

// raceDetector tells tests that measure memory that sync.Pool drops items at random.
const raceDetector = true
