//go:build !race

package render

const RaceDetector = false
