package profiles_test

import (
	"fmt"
	"strings"
	"testing"
)

// report collects what is wrong, and says the same thing about one profile once.
type report struct {
	order []string
	first map[string]string
	count map[string]int
}

// add takes what is wrong in a combination.
func (r *report) add(what, in string) {
	profile, _, _ := strings.Cut(in, " ")
	key := profile + ": " + what
	if r.first == nil {
		r.first, r.count = map[string]string{}, map[string]int{}
	}
	if r.count[key]++; r.count[key] == 1 {
		r.order = append(r.order, key)
		_, r.first[key], _ = strings.Cut(in, " ")
	}
}

// maxReported is the maximal number of findings that a test prints.
const maxReported = 40

func (r *report) fail(t *testing.T) {
	t.Helper()
	for i, key := range r.order {
		if i == maxReported {
			t.Errorf("and %d more", len(r.order)-i)
			return
		}
		more := ""
		if n := r.count[key] - 1; n > 0 {
			more = fmt.Sprintf(", and in %d more", n)
		}
		t.Errorf("%s\n  with %s%s", key, r.first[key], more)
	}
}
