package render

import (
	"fmt"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

func TestCache(t *testing.T) {
	e := NewEngine()
	profile := func(i int) Profile { return Profile{Digest: fmt.Sprint(i), Spec: osm.OperatingSystemProfileSpec{}} }
	first := e.compiled(profile(0))
	for i := 1; i < maxCompiled; i++ {
		e.compiled(profile(i))
	}
	if e.compiled(profile(0)) != first {
		t.Error("a profile was compiled twice")
	}
	e.compiled(profile(maxCompiled)) // drops 1, the least recently used
	if e.compiled(profile(0)) != first || e.cache.byKey["1"] != nil || len(e.cache.byKey) != maxCompiled || e.cache.order.Len() != maxCompiled {
		t.Errorf("the cache holds %d profiles", len(e.cache.byKey))
	}
	once := e.compiled(Profile{})
	if again := e.compiled(Profile{}); again == once {
		t.Error("a profile without a digest was cached")
	}
}
