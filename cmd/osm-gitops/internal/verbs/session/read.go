package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// GetReferenced returns the object that an argument names.
func (s *Session) GetReferenced(ctx context.Context, of *Ref) (client.Object, error) {
	if of.IsPool {
		return s.GetPool(ctx, of)
	}
	var ps api.ProfileSource
	return &ps, s.Read(ctx, of, &ps)
}

// GetPool returns a MachineDeployment with a profile.
func (s *Session) GetPool(ctx context.Context, of *Ref) (*cluster.MachineDeployment, error) {
	var md cluster.MachineDeployment
	if err := s.Read(ctx, of, &md); err != nil {
		return nil, err
	}
	if md.Annotations[api.AnnotationOSP] == "" {
		return nil, fmt.Errorf("%s is not a pool: it has no annotation %s, which names its profile", of, api.AnnotationOSP)
	}
	return &md, nil
}

// FindCandidate returns the entry of a profile in the ProfileSource from which pools get it.
func (s *Session) FindCandidate(ctx context.Context, namespace, profile string) (selection.Candidate, error) {
	var list api.ProfileSourceList
	if err := s.Management.WithWatch.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return selection.Candidate{}, AddRemedy(err)
	}
	userSources, builtin := selection.SplitBuiltin(list.Items)
	for _, sources := range [][]api.ProfileSource{userSources, builtin} {
		if c, ok := selection.FindCandidate(sources, profile); ok {
			return c, nil
		}
	}
	var names []string
	for _, ps := range list.Items {
		for _, e := range ps.Status.Profiles {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return selection.Candidate{}, NewUnknownNameError(fmt.Sprintf("profile %q of a ProfileSource in namespace %s", profile, namespace), profile, slices.Compact(names))
}

// mostNear is the number of names that are proposed instead of an unknown one.
const mostNear = 3

// similarNames returns the names most like one.
func similarNames(name string, all []string) []string {
	all = slices.Clone(all)
	distance := func(other string) int { return levenshtein.Distance(name, other, nil) }
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(a, b)) })
	return all[:min(len(all), mostNear)]
}

// NewUnknownNameError returns the error for a name that does not exist. It proposes names that do.
func NewUnknownNameError(what, name string, all []string) error {
	if len(all) == 0 {
		return fmt.Errorf("%s does not exist, and there is no other", what)
	}
	return fmt.Errorf("%s does not exist: did you mean %s?", what, strings.Join(similarNames(name, all), ", "))
}

// Read reads the object of a reference.
func (s *Session) Read(ctx context.Context, r *Ref, obj client.Object) error {
	k, namespace := SourceKind, s.SourceNamespace()
	if r.IsPool {
		k, namespace = PoolKind, s.DefaultPoolNamespace
	}
	r.Namespace = cmp.Or(r.Namespace, namespace)
	found, err := kubeclient.Find(ctx, k.ConnectionIn(s), client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, obj)
	if found || err != nil {
		return AddRemedy(err)
	}
	names, err := k.ListNames(ctx, s, "")
	if err != nil { // no permission to list all of them: those of this namespace are enough
		names, _ = k.ListNames(ctx, s, r.Namespace)
	}
	return NewUnknownNameError(r.String(), r.Namespace+"/"+r.Name, names)
}

// AddRemedy adds a remedy to an error of the API server.
func AddRemedy(err error) error {
	var unreachable *url.Error
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: an administrator can give you this permission", err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("it was changed at the same time, and nothing was written: repeat the command: %w", err)
	case apimeta.IsNoMatchError(err):
		return fmt.Errorf("the cluster does not have this kind: %w: install osm-gitops, or name another cluster with --context or --kubeconfig", err)
	case errors.As(err, &unreachable) && !errors.Is(err, context.Canceled):
		return fmt.Errorf("the API server does not answer: %w: name another cluster with --context, --kubeconfig or $KUBECONFIG", unreachable)
	}
	return err
}
