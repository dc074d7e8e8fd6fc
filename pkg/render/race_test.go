//go:build race

package render

// RaceDetector tells tests that measure memory that sync.Pool drops items at random.
const RaceDetector = true
