package matrix

import (
	"slices"
	"testing"
)

func TestPairwise(t *testing.T) {
	for name, sizes := range map[string][]int{
		"two dimensions need their product": {3, 4},
		"a value alone is a constant":       {1, 2, 3},
		"many small ones":                   {2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
		"like a profile's":                  {13, 4, 4, 6, 2, 5, 2, 2, 2, 3, 4, 2, 4, 3},
	} {
		t.Run(name, func(t *testing.T) {
			rows := Pairwise(sizes)
			seen := map[pair]bool{}
			for _, row := range rows {
				for d, v := range row {
					if v < 0 || v >= sizes[d] {
						t.Fatalf("row %v has no value %d in dimension %d", row, v, d)
					}
					for e := range d {
						seen[pair{d, v, e, row[e]}] = true
					}
				}
			}
			for d := range sizes {
				for e := range d {
					for v := range sizes[d] {
						for w := range sizes[e] {
							if !seen[pair{d, v, e, w}] {
								t.Errorf("value %d of dimension %d never meets value %d of dimension %d", v, d, w, e)
							}
						}
					}
				}
			}
			// The two widest dimensions alone need their product; half as much again
			// is what the greedy choice may cost.
			wide := slices.Sorted(slices.Values(sizes))
			least := wide[len(wide)-1] * wide[len(wide)-2]
			if len(rows) < least || len(rows) > least*3/2+10 {
				t.Errorf("%d combinations, at least %d are needed", len(rows), least)
			}
			if again := Pairwise(sizes); !slices.EqualFunc(rows, again, slices.Equal[[]int]) {
				t.Error("the same sizes gave other combinations")
			}
		})
	}
}

// The combinations of given sizes are part of what a finding says: they stay the same from
// release to release.
func TestPairwiseOrder(t *testing.T) {
	for _, test := range []struct {
		sizes []int
		want  [][]int
	}{
		{nil, nil},
		{[]int{3}, nil},
		{[]int{1, 1}, [][]int{{0, 0}}},
		{[]int{2, 3, 2}, [][]int{{0, 0, 0}, {1, 0, 1}, {0, 1, 1}, {1, 1, 0}, {0, 2, 0}, {1, 2, 1}}},
		{[]int{3, 3, 2, 2}, [][]int{
			{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 2, 0, 1}, {1, 0, 1, 0}, {1, 1, 0, 0}, {1, 2, 1, 1}, {2, 0, 0, 1}, {2, 1, 1, 0}, {2, 2, 0, 0},
		}},
		{[]int{2, 2, 3, 4}, [][]int{
			{0, 0, 0, 0}, {1, 1, 1, 0}, {0, 1, 2, 0}, {1, 0, 0, 1}, {0, 0, 1, 1}, {1, 1, 2, 1},
			{0, 1, 0, 2}, {1, 0, 1, 2}, {0, 0, 2, 2}, {1, 1, 0, 3}, {0, 0, 1, 3}, {1, 1, 2, 3},
		}},
	} {
		if got := Pairwise(test.sizes); !slices.EqualFunc(got, test.want, slices.Equal[[]int]) {
			t.Errorf("Pairwise(%v) = %v, want %v", test.sizes, got, test.want)
		}
	}
}
