package render

import (
	"fmt"
	"strings"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

func TestCache(t *testing.T) {
	e := NewEngine()
	profile := func(i int) Profile { return Profile{Digest: fmt.Sprint(i), Spec: osm.OperatingSystemProfileSpec{}} }
	first := e.getOrCompile(profile(0))
	for i := 1; i < maxCompiled; i++ {
		e.getOrCompile(profile(i))
	}
	if e.getOrCompile(profile(0)) != first {
		t.Error("a profile was compiled twice")
	}
	e.getOrCompile(profile(maxCompiled)) // drops 1, the least recently used
	if _, ok := e.cache.Get("1"); ok || e.getOrCompile(profile(0)) != first || e.cache.Len() != maxCompiled {
		t.Errorf("the cache holds %d profiles", e.cache.Len())
	}
	once := e.getOrCompile(Profile{})
	if again := e.getOrCompile(Profile{}); again == once {
		t.Error("a profile without a digest was cached")
	}
	large := withFile(strings.Repeat("{{ .KubeVersion }}", maxCompiledBytes/actionMemory/len(" .KubeVersion ")+1))
	large.Digest = "large"
	once = e.getOrCompile(large)
	if again := e.getOrCompile(large); again == once {
		t.Error("a profile that takes much was cached")
	}
}
