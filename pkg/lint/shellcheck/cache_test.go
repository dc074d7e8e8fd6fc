package shellcheck

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestCacheLimit: the file stays below its limit, and what was used last stays in it. A process
// that opened the cache earlier does not remove what another one added.
func TestCacheLimit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lint")
	key := func(i int) string { return cacheKey("", nil, fmt.Sprint(i)) }
	const many = 20_000
	first, other := OpenCache(dir), OpenCache(dir)
	for i := range many {
		first.add(key(i), nil)
	}
	first.get(key(0))
	first.save()
	other.add(key(many), []comment{{Line: 1}})
	other.save()
	again := OpenCache(dir)
	if n := len(again.stored); n < 5_000 || n >= many {
		t.Fatalf("%d answers are stored", n)
	}
	for i, want := range map[int]bool{1: false, many - 1: true, 0: true, many: true} {
		if _, ok := again.get(key(i)); ok != want {
			t.Errorf("answer %d: %v", i, ok)
		}
	}
}
