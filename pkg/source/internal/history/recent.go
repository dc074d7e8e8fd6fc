package history

// Recent caches values by name, up to a total weight. The least recently used values are
// dropped first, the newest never.
type Recent[T any] struct {
	MaxWeight int // maximum sum of the weights
	values    map[string]*cachedValue[T]
	weight    int
	clock     uint64
}

type cachedValue[T any] struct {
	value  T
	weight int
	used   uint64
}

// Get returns a value, or the zero value.
func (r *Recent[T]) Get(name string) (value T) {
	k := r.values[name]
	if k == nil {
		return value
	}
	r.clock++
	k.used = r.clock
	return k.value
}

// Put stores a value and replaces the previous one.
func (r *Recent[T]) Put(name string, value T, weight int) {
	r.drop(name)
	if r.values == nil {
		r.values = map[string]*cachedValue[T]{}
	}
	r.clock++
	r.values[name] = &cachedValue[T]{value, weight, r.clock}
	r.weight += weight
	for r.weight > r.MaxWeight && len(r.values) > 1 {
		oldest := name
		for other, k := range r.values {
			if k.used < r.values[oldest].used {
				oldest = other
			}
		}
		r.drop(oldest)
	}
}

func (r *Recent[T]) drop(name string) {
	if k := r.values[name]; k != nil {
		r.weight -= k.weight
		delete(r.values, name)
	}
}
