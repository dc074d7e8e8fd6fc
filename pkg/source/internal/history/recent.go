package history

// Recent keeps values by name, as many as there is room for. Those that were not used
// for the longest time go first, the newest never.
type Recent[T any] struct {
	Room   int // the sum of the weights
	Values map[string]*keptValue[T]
	Weight int
	clock  uint64
}

type keptValue[T any] struct {
	value  T
	Weight int
	used   uint64
}

// Get returns a value, or the zero one.
func (r *Recent[T]) Get(name string) (value T) {
	k := r.Values[name]
	if k == nil {
		return value
	}
	r.clock++
	k.used = r.clock
	return k.value
}

// Put keeps a value, in place of the one before.
func (r *Recent[T]) Put(name string, value T, weight int) {
	r.Drop(name)
	if r.Values == nil {
		r.Values = map[string]*keptValue[T]{}
	}
	r.clock++
	r.Values[name] = &keptValue[T]{value, weight, r.clock}
	r.Weight += weight
	for r.Weight > r.Room && len(r.Values) > 1 {
		oldest := name
		for other, k := range r.Values {
			if k.used < r.Values[oldest].used {
				oldest = other
			}
		}
		r.Drop(oldest)
	}
}

func (r *Recent[T]) Drop(name string) {
	if k := r.Values[name]; k != nil {
		r.Weight -= k.Weight
		delete(r.Values, name)
	}
}
