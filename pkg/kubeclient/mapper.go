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

// mapper remembers how kinds are served. A cache that is limited to namespaces asks for
// every single read, and the mapper below makes a list of all that a group has each
// time: an eighth of what the controller allocated. What is not served is asked again.
type mapper struct {
	apimeta.RESTMapper
	known sync.Map // group, kind and versions -> *apimeta.RESTMapping
}

// NewMapper makes the mapper of a cluster.
func NewMapper(cfg *rest.Config, client *http.Client) (apimeta.RESTMapper, error) {
	discovered, err := apiutil.NewDynamicRESTMapper(cfg, client)
	if err != nil {
		return nil, fmt.Errorf("preparing to discover what the API server serves: %w", err)
	}
	return &mapper{RESTMapper: discovered}, nil
}

// RESTMapping is that of a kind in the first of the versions that is served.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*apimeta.RESTMapping, error) {
	key := kind.String() + " " + strings.Join(versions, " ")
	if known, ok := m.known.Load(key); ok {
		return known.(*apimeta.RESTMapping), nil
	}
	found, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		m.known.Store(key, found)
	}
	return found, err
}
