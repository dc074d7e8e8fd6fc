package desired

import (
	"testing"
	"time"
)

func TestValuesForgetWhatNobodyAsksFor(t *testing.T) {
	var v Values
	now := time.Now()
	v.findOrCreate("old", now).read = now
	v.findOrCreate("recent", now).read = now.Add(2 * ValuesPoll)
	v.findOrCreate("another", now.Add(3*ValuesPoll))
	for object, want := range map[string]bool{"old": false, "recent": true, "another": true} {
		if _, known := v.of[object]; known != want {
			t.Errorf("%s is known: %t, want %t", object, known, want)
		}
	}
}
