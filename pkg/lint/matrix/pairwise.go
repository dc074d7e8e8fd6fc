package matrix

import "slices"

// PairwiseRows returns the rows in which any two values of two dimensions occur together.
func PairwiseRows(dims []Dimension) [][]int {
	sizes := make([]int, len(dims))
	for i, d := range dims {
		sizes[i] = len(d.Values)
	}
	return Pairwise(sizes)
}

// Pairwise returns combinations of values, one value per dimension as an index below its size,
// such that any two values of two dimensions occur together in one of them. It is greedy and
// deterministic: the same sizes give the same combinations.
func Pairwise(sizes []int) [][]int {
	open := newPairs(sizes)
	used := make([][]int, len(sizes)) // how many times each value was chosen
	for d, size := range sizes {
		used[d] = make([]int, size)
	}
	// Wide dimensions are chosen first: they have the most pairs to cover.
	order := make([]int, len(sizes))
	for d := range sizes {
		order[d] = d
	}
	slices.SortStableFunc(order, func(a, b int) int { return sizes[b] - sizes[a] })

	var rows [][]int
	for {
		first, ok := open.firstUncovered(order)
		if !ok {
			return rows
		}
		row := slices.Repeat([]int{-1}, len(sizes))
		row[first.d], row[first.e] = first.v, first.w
		for _, d := range order {
			if row[d] >= 0 {
				continue
			}
			best, bestGain := 0, -1
			for v := range sizes[d] {
				gain := 0
				for e, w := range row {
					if w >= 0 && open.isUncovered(d, v, e, w) {
						gain++
					}
				}
				if gain > bestGain || gain == bestGain && used[d][v] < used[d][best] {
					best, bestGain = v, gain
				}
			}
			row[d] = best
		}
		for d, v := range row {
			used[d][v]++
			for e := range d {
				open.close(d, v, e, row[e])
			}
		}
		rows = append(rows, row)
	}
}

// pair is value v of dimension d together with value w of dimension e.
type pair struct{ d, v, e, w int }

// pairs are those that no combination has yet.
type pairs struct {
	sizes []int
	open  map[pair]bool
}

func newPairs(sizes []int) pairs {
	p := pairs{sizes: sizes, open: map[pair]bool{}}
	for d := range sizes {
		for e := range d {
			for v := range sizes[d] {
				for w := range sizes[e] {
					p.open[pair{d, v, e, w}] = true
				}
			}
		}
	}
	return p
}

// isUncovered reports whether no combination has these two values yet.
func (p pairs) isUncovered(d, v, e, w int) bool {
	if d < e {
		d, v, e, w = e, w, d, v
	}
	return p.open[pair{d, v, e, w}]
}

func (p pairs) close(d, v, e, w int) { delete(p.open, pair{d, v, e, w}) }

// firstUncovered returns the first pair that no combination has yet, with dimensions in the given order.
func (p pairs) firstUncovered(order []int) (pair, bool) {
	if len(p.open) == 0 {
		return pair{}, false
	}
	for i, d := range order {
		for _, e := range order[i+1:] {
			for v := range p.sizes[d] {
				for w := range p.sizes[e] {
					if p.isUncovered(d, v, e, w) {
						return pair{d, v, e, w}, true
					}
				}
			}
		}
	}
	return pair{}, false
}
