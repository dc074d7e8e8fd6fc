package source

// recent keeps values by name, as many as there is room for. Those that were not used
// for the longest time go first, the newest never.
type recent[T any] struct {
	room   int // the sum of the weights
	kept   map[string]*keptValue[T]
	weight int
	clock  uint64
}

type keptValue[T any] struct {
	value  T
	weight int
	used   uint64
}

// get returns a value, or the zero one.
func (r *recent[T]) get(name string) (value T) {
	k := r.kept[name]
	if k == nil {
		return value
	}
	r.clock++
	k.used = r.clock
	return k.value
}

// put keeps a value, in place of the one before.
func (r *recent[T]) put(name string, value T, weight int) {
	r.drop(name)
	if r.kept == nil {
		r.kept = map[string]*keptValue[T]{}
	}
	r.clock++
	r.kept[name] = &keptValue[T]{value, weight, r.clock}
	r.weight += weight
	for r.weight > r.room && len(r.kept) > 1 {
		oldest := name
		for other, k := range r.kept {
			if k.used < r.kept[oldest].used {
				oldest = other
			}
		}
		r.drop(oldest)
	}
}

func (r *recent[T]) drop(name string) {
	if k := r.kept[name]; k != nil {
		r.weight -= k.weight
		delete(r.kept, name)
	}
}
