package shellrules

import "testing"

// A range includes its first line and excludes its last.
func TestFirstBetween(t *testing.T) {
	for _, c := range []struct {
		lines          []int
		from, to, want int
	}{
		{nil, 1, 9, 0},
		{[]int{3, 5}, 3, 5, 3},
		{[]int{3, 5}, 4, 6, 5},
		{[]int{5}, 3, 5, 0},
		{[]int{2}, 3, 5, 0},
	} {
		if got := firstBetween(c.lines, c.from, c.to); got != c.want {
			t.Errorf("firstBetween(%v, %d, %d) = %d, want %d", c.lines, c.from, c.to, got, c.want)
		}
	}
}
