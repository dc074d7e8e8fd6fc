package trace

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

// Clusters are where trails are read from. The readers have to give whole objects:
// the caches of the controller hold them in part, and do not read page by page.
type Clusters struct {
	// Management has profiles, their sources, configurations and records.
	Management client.Reader
	// Worker has nodes, machines, pools, their Secrets and NodeProvenances. It is the
	// same one, unless there are two clusters.
	Worker client.Reader
	// Namespace is the controller's.
	Namespace string
	// Hosts names the Git hosts of repositories, for links to commits. Others are derived from a
	// ProfileSource, or from well-known host names.
	Hosts githost.Hosts
}

// noPermission is the note for an object that the user has no right to read.
const noPermission = "you have no permission to read it"

// NotFoundError says that an object does not exist and no other object mentions it, or that the user
// has no right to read if it exists.
type NotFoundError struct {
	Object Object
	// Hint says how to find the object.
	Hint string
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("%s does not exist, and no record refers to it", e.Object)
	if strings.Contains(e.Hint, noPermission) {
		text = fmt.Sprintf("whether %s exists, or a record refers to it, is unknown", e.Object)
	}
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// The kinds of which only metadata is read.
var (
	nodeKind       = corev1.SchemeGroupVersion.WithKind("Node")
	secretKind     = corev1.SchemeGroupVersion.WithKind("Secret")
	machineSetKind = cluster.GroupVersion.WithKind("MachineSet")
	configKind     = osm.GroupVersion.WithKind("OperatingSystemConfig")
	recordKind     = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
)

// getWithState reads an object and returns Found, Missing or Unreadable, with a note. Any other failure is an
// error: a timeout must not look like an empty cluster.
func getWithState(ctx context.Context, from client.Reader, key types.NamespacedName, obj client.Object) (State, string, error) {
	err := from.Get(ctx, key, obj)
	if err == nil {
		return Found, "", nil
	}
	state, note := stateOfError(err)
	if state == "" {
		return "", "", fmt.Errorf("reading %s %s: %w", kindOf(obj), key, err)
	}
	return state, note, nil
}

// getExisting reads the object with the kind, namespace and name of at. If it does not exist, or
// the user must not read it, the error is a *NotFoundError.
func getExisting(ctx context.Context, from client.Reader, at Object, obj client.Object) error {
	state, note, err := getWithState(ctx, from, types.NamespacedName{Namespace: at.Namespace, Name: at.Name}, obj)
	if err == nil && state != Found {
		err = &NotFoundError{Object: at, Hint: note}
	}
	return err
}

// stateOfError returns the state and note for an error of a reader, or "" for an error that is neither
// "not found" nor "forbidden".
func stateOfError(err error) (State, string) {
	switch {
	case apierrors.IsNotFound(err):
		return Missing, ""
	case apimeta.IsNoMatchError(err):
		return Missing, "the cluster does not have this kind"
	case apierrors.IsForbidden(err):
		return Unreadable, noPermission
	}
	return "", ""
}

func kindOf(obj runtime.Object) string {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	name := strings.TrimSuffix(fmt.Sprintf("%T", obj), "]") // of a list: "*list.Of[v1alpha1.Machine,*v1alpha1.Machine]"
	return name[strings.LastIndex(name, ".")+1:]
}

// List reads page by page, each into a copy of an empty list, and passes it to visit. Kinds that
// cannot be read or do not exist get the states of getWithState.
func List[L client.ObjectList](ctx context.Context, from client.Reader, empty L, visit func(L) error, opts ...client.ListOption) (State, string, error) {
	for page, err := range kubeclient.Pages(ctx, from, empty, opts...) {
		if err != nil {
			if state, note := stateOfError(err); state != "" {
				return state, note, nil
			}
			return "", "", fmt.Errorf("listing %ss: %w", strings.TrimSuffix(kindOf(empty), "List"), err)
		}
		if err := visit(page); err != nil {
			// visit needs no more pages.
			if errors.Is(err, errEnough) {
				err = nil
			}
			return Found, "", err
		}
	}
	return Found, "", nil
}

// errEnough ends a list.
var errEnough = errors.New("enough was read")
