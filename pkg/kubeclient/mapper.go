package kubeclient

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// mapper caches REST mappings. A cache that is limited to namespaces asks for a mapping on
// every read, and the mapper below builds a list of everything in the group each time: an
// eighth of the controller's allocations. Missing kinds are not cached.
type mapper struct {
	apimeta.RESTMapper
	cache sync.Map // group, kind and versions to *apimeta.RESTMapping
}

// NewMapper returns the mapper of a cluster.
func NewMapper(cfg *rest.Config, client *http.Client) (apimeta.RESTMapper, error) {
	discovered, err := apiutil.NewDynamicRESTMapper(cfg, client)
	if err != nil {
		return nil, fmt.Errorf("preparing to discover what the API server serves: %w", err)
	}
	return &mapper{RESTMapper: discovered}, nil
}

// RESTMapping returns the mapping of a kind in the first served version.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*apimeta.RESTMapping, error) {
	key := kind.String() + " " + strings.Join(versions, " ")
	if known, ok := m.cache.Load(key); ok {
		return known.(*apimeta.RESTMapping), nil
	}
	found, err := m.RESTMapper.RESTMapping(kind, versions...)
	// An error is not cached, because the kind can be installed later.
	if err == nil {
		m.cache.Store(key, found)
	}
	return found, err
}
