package ownership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// resultAge is how long an origin is cached that is not recorded, for example because an
// applier cannot be read: thousands of pools can use its profile. maxResults are cached.
const resultAge, maxResults = time.Minute, 4096

// fluxGroup has the sources of Kustomizations.
var fluxGroup = schema.GroupVersion{Group: "source.toolkit.fluxcd.io", Version: "v1"}

// A Resolver finds who applied profiles. Its fields are set once, before its first use.
type Resolver struct {
	// Live reads Kustomizations and Applications, which are not watched.
	Live client.Reader
	// Client and Recorder are those of Reconcile: one writes annotations of profiles, the other
	// events on them.
	Client   client.Client
	Recorder events.EventRecorder
	// ArgoNamespace has the Applications whose tracking ids name no namespace.
	ArgoNamespace string
	// Clock is used for the age of cached answers.
	Clock clock.PassiveClock

	mu      sync.Mutex
	results *cache.LRUExpireCache // of Origin, by what was asked
}

// Origin is the origin of a profile that no ProfileSource created.
type Origin struct {
	// By lists who applied it: none, one, or two that do not know of each other.
	By []Applier
	// Warning reports another possible applier that is uncertain, so that it does not
	// cause a rejection.
	Warning string
	// Repository, Path and Revision are the origin, empty if Why says why it is unknown.
	Repository, Path, Revision string
	Why                        string

	recorded bool // on the object
}

// ErrRaced reports that the object has changed in the meantime: it is reconciled again.
var ErrRaced = errors.New("the profile has changed in the meantime")

// TwoError reports that two appliers apply one object, each of which reverts the other's
// changes.
type TwoError struct {
	Profile string
	By      []Applier
}

func (e *TwoError) Error() string {
	return fmt.Sprintf("OperatingSystemProfile %s is applied by both %s and %s, and each reverts the other's changes: remove it from one of them, or remove the mark of the one that no longer has it", e.Profile, e.By[0], e.By[1])
}

// ResolveOrigin finds who applied a profile. It costs nothing for an object without marks, and no
// request for one whose origin Reconcile recorded with this content. The error is a *TwoError,
// ErrRaced, or the API server's.
func (n *Resolver) ResolveOrigin(ctx context.Context, osp *osm.OperatingSystemProfile) (Origin, error) {
	by := possibleAppliers(osp, n.ArgoNamespace)
	if osp.Labels[api.LabelSource] != "" || len(by) == 0 {
		return Origin{}, nil
	}
	digest := profile.Digest(osp.Spec)
	a := osp.Annotations
	if len(by) == 1 && a[api.AnnotationAppliedBy] == by[0].String() && a[api.AnnotationDigest] == digest {
		return Origin{By: by, Repository: a[api.AnnotationRepository], Path: a[api.AnnotationPath], Revision: a[api.AnnotationCommit], recorded: true}, nil
	}
	n.mu.Lock() // one pool's request serves all
	defer n.mu.Unlock()
	if n.results == nil {
		n.results = cache.NewLRUExpireCacheWithClock(maxResults, n.Clock)
	}
	asked := fmt.Sprint(osp.UID, digest, by)
	if last, ok := n.results.Get(asked); ok {
		found := last.(Origin)
		return found, checkSingleApplier(osp, found)
	}
	found, err := n.checkAppliers(ctx, osp, by)
	if err != nil {
		return found, err
	}
	n.results.Add(asked, found, resultAge)
	return found, checkSingleApplier(osp, found)
}

// checkSingleApplier returns a *TwoError if two appliers have the profile.
func checkSingleApplier(osp *osm.OperatingSystemProfile, f Origin) error {
	if len(f.By) < 2 {
		return nil
	}
	return &TwoError{Profile: osp.Namespace + "/" + osp.Name, By: f.By}
}

// markRaced wraps ErrRaced around a conflict or a NotFound error.
func markRaced(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", ErrRaced, err)
	}
	return err
}

// claim says whether an applier has an object.
type claim int

const (
	denied  claim = iota // the applier does not have it
	absent               // the applier is not in this cluster
	claimed              // it lists the object, or cannot be read
)

// checkAppliers checks each applier. Two count as two even if one of them cannot be read; but the
// mark of one that is not in this cluster can be a leftover, if another lists the object.
func (n *Resolver) checkAppliers(ctx context.Context, osp *osm.OperatingSystemProfile, by []Applier) (Origin, error) {
	live := &osm.OperatingSystemProfile{}
	if err := n.Live.Get(ctx, client.ObjectKeyFromObject(osp), live); err != nil {
		return Origin{}, markRaced(fmt.Errorf("reading OperatingSystemProfile %s/%s: %w", osp.Namespace, osp.Name, err))
	}
	// The caller computed the digest from its object, which must still be the live one.
	if live.UID != osp.UID || live.ResourceVersion != osp.ResourceVersion {
		return Origin{}, ErrRaced
	}
	var out, gone Origin
	for _, a := range by {
		one, c, err := n.checkApplier(ctx, live, a)
		switch {
		case err != nil:
			return Origin{}, err
		case c == denied:
			out.Why = cmp.Or(out.Why, one.Why)
		case c == absent && !a.unsure:
			gone.By, gone.Why = append(gone.By, a), one.Why
		case c == claimed:
			one.By = append(out.By, a)
			out = one
		}
	}
	if len(out.By) == 0 && len(gone.By) > 0 {
		return gone, nil
	}
	if len(out.By) == 1 && len(gone.By) > 0 {
		out.Warning = fmt.Sprintf("%s applies it, and it also has a mark of %s, which is not in this cluster: if that applies it from another cluster, remove it from one of the two; otherwise remove the mark", out.By[0], gone.By[0])
	}
	if len(out.By) != 1 {
		return out, nil
	}
	before, err := n.previousApplierWarning(ctx, live, by)
	out.Warning = cmp.Or(out.Warning, before)
	return out, err
}

// previousApplierWarning returns a warning if a previous applier still lists the object: of two
// Kustomizations the labels name the one that applied it last.
func (n *Resolver) previousApplierWarning(ctx context.Context, osp *osm.OperatingSystemProfile, now []Applier) (warning string, err error) {
	kind, key, _ := strings.Cut(osp.Annotations[api.AnnotationAppliedBy], " ")
	namespace, name, ok := strings.Cut(key, "/")
	a := Applier{Kind: kind, Namespace: namespace, Name: name, unsure: true}
	if !ok || kind != Kustomization && kind != Application || slices.ContainsFunc(now, func(b Applier) bool { return a.String() == b.String() }) {
		return "", nil
	}
	_, c, err := n.checkApplier(ctx, osp, a)
	if err != nil || c != claimed {
		return "", err
	}
	return fmt.Sprintf("%s applies it now, and %s, which applied it before, still lists it: if this continues, each reverts the other's changes: remove it from one of them", now[0], a), nil
}

// checkApplier checks one applier.
func (n *Resolver) checkApplier(ctx context.Context, osp *osm.OperatingSystemProfile, a Applier) (Origin, claim, error) {
	kind := kustomizationKind
	if a.Kind == Application {
		kind = applicationKind
	}
	obj, why, err := n.readIfAvailable(ctx, kind, a.Namespace, a.Name)
	switch {
	case err != nil:
		return Origin{}, denied, err
	// Without permission to read the applier, a certain mark counts and a possible one does not.
	case why == noPermission && a.unsure:
		return Origin{Why: fmt.Sprintf("%s: %s", a, why)}, denied, nil
	case why == noPermission:
		return Origin{Why: fmt.Sprintf("%s: %s", a, why)}, claimed, nil
	case why != "":
		return Origin{Why: fmt.Sprintf("%s: %s", a, why)}, absent, nil
	}
	by := managersOf(osp, a)
	f, c, err := n.findOrigin(ctx, obj, osp, by, a)
	if err == nil && c == claimed && len(by.edited) > 0 {
		f = Origin{Why: "its content was changed after that by " + redact.PrintableLine(strings.Join(by.edited, ", ")) + ", and is not in any revision: change it in the repository"}
	}
	if f.Why != "" {
		f.Why = fmt.Sprintf("%s: %s", a, f.Why)
	}
	return f, c, err
}

// findOrigin returns where an applier has an object from.
func (n *Resolver) findOrigin(ctx context.Context, obj *unstructured.Unstructured, osp *osm.OperatingSystemProfile, by managers, a Applier) (Origin, claim, error) {
	if a.Kind == Application {
		f, c := originFromArgo(obj, osp, !a.unsure)
		return f, c, nil
	}
	if a.unsure {
		by = managers{}
	}
	revision, why, c := fluxRevision(obj, osp, by)
	if why != "" {
		return Origin{Why: why}, c, nil
	}
	f := Origin{Path: folderPathWithSlash(stringField(nestedMap(obj.Object, "spec"), "path")), Revision: redact.PrintableLine(revision)}
	var err error
	f.Repository, err = n.readRepositoryURL(ctx, obj)
	return f, c, err
}

// readRepositoryURL returns the address of a Kustomization's source, empty if it is not
// available.
func (n *Resolver) readRepositoryURL(ctx context.Context, k *unstructured.Unstructured) (string, error) {
	kind, namespace, name := sourceOfKustomization(k)
	if kind == "" {
		return "", nil
	}
	obj, why, err := n.readIfAvailable(ctx, fluxGroup.WithKind(kind), namespace, name)
	if err != nil || why != "" {
		return "", err
	}
	spec := nestedMap(obj.Object, "spec")
	where := cmp.Or(stringField(spec, "url"), stringField(spec, "endpoint"))
	if bucket := stringField(spec, "bucketName"); where != "" && bucket != "" {
		where += "/" + bucket
	}
	return cleanURL(where), nil
}

// noPermission is the reason if an applier cannot be read.
const noPermission = "the controller has no permission to read it: apply deploy/appliers.yaml"

// readIfAvailable reads an object of Flux or Argo CD. The second result says why it is not
// available, which is not an error: neither must be installed, nor must the controller
// have the permissions.
func (n *Resolver) readIfAvailable(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (_ *unstructured.Unstructured, why string, err error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	err = n.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	switch {
	case apimeta.IsNoMatchError(err):
		return nil, fmt.Sprintf("the cluster does not know the kind %s of %s", kind.Kind, kind.Group), nil
	case apierrors.IsNotFound(err):
		return nil, "it does not exist in this cluster", nil
	case apierrors.IsForbidden(err):
		return nil, noPermission, nil
	case err != nil:
		return nil, "", fmt.Errorf("reading %s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	return obj, "", nil
}

// annotate annotates the object with its origin. It only writes to this state of the object,
// and only keys of our own with our own field manager, which Flux and Argo CD ignore.
func (n *Resolver) annotate(ctx context.Context, osp *osm.OperatingSystemProfile, f Origin) error {
	annotations := map[string]string{
		api.AnnotationAppliedBy: f.By[0].String(),
		api.AnnotationRevision:  f.Revision,
		api.AnnotationCommit:    f.Revision,
		api.AnnotationVersion:   osp.Spec.Version,
		api.AnnotationDigest:    profile.Digest(osp.Spec),
	}
	for key, value := range map[string]string{api.AnnotationRepository: f.Repository, api.AnnotationPath: f.Path} {
		if value != "" {
			annotations[key] = value
		}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(osm.GroupVersion.WithKind("OperatingSystemProfile"))
	u.SetNamespace(osp.Namespace)
	u.SetName(osp.Name)
	u.SetUID(osp.UID)
	u.SetResourceVersion(osp.ResourceVersion)
	u.SetAnnotations(annotations)
	err := n.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(api.FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("recording on OperatingSystemProfile %s/%s who applied it: %w", osp.Namespace, osp.Name, err)
	}
	return nil
}

// event emits an event on a profile about its appliers.
func (n *Resolver) event(osp *osm.OperatingSystemProfile, kind, reason, text string) {
	n.Recorder.Eventf(osp, nil, kind, reason, "Note", "%s", redact.Shorten(text, redact.MaxEvent))
}

// cleanURL returns a URL without credentials.
func cleanURL(raw string) string {
	if raw == "" {
		return ""
	}
	return redact.PrintableLine(source.CleanAddress(raw))
}

// folderPathWithSlash returns a path in a repository, with a trailing slash: the file of an object
// within it is unknown.
func folderPathWithSlash(p string) string {
	clean := strings.TrimPrefix(path.Clean("/"+cmp.Or(p, ".")), "/")
	if clean == "" {
		return "./"
	}
	return redact.PrintableLine(clean) + "/"
}
