package pools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/ownership"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// resolve finds the profile a pool asks for: that of its name in a ProfileSource, else
// an OperatingSystemProfile object of that name, else a built-in profile. Of a
// ProfileSource's it is the current version, or the one that the pool asks for.
func (r *Reconciler) resolve(ctx context.Context, md *cluster.MachineDeployment, osc *osm.OperatingSystemConfig) (render.Profile, error) {
	want, err := r.wishOf(md)
	if err != nil {
		return render.Profile{}, err
	}
	var sources api.ProfileSourceList // of the cache: not to be changed
	if err := r.Management.List(ctx, &sources, client.InNamespace(want.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return render.Profile{}, fmt.Errorf("listing ProfileSources: %w", err)
	}
	own, builtin := selection.SplitBuiltin(sources.Items)
	if o, ok := selection.FindCandidate(own, want.Name); ok {
		return r.profileOffered(ctx, want, o, osc)
	}
	if err := r.unlooked(want, osc, own); err != nil {
		return render.Profile{}, err
	}
	osp, err := r.profileObject(ctx, r.Management, r.refTo(want.Namespace, want.Name))
	if err == nil {
		return r.profileByHand(ctx, want, osp, recordOf(osc))
	}
	if !apierrors.IsNotFound(err) {
		return render.Profile{}, err
	}
	if o, ok := selection.FindCandidate(builtin, want.Name); ok {
		return r.profileOffered(ctx, want, o, osc)
	}
	if err := r.unlooked(want, osc, builtin); err != nil {
		return render.Profile{}, err
	}
	return render.Profile{}, fault.Refuse("no ProfileSource in namespace %q offers a profile %q, and there is no OperatingSystemProfile of that name%s: correct annotation %s, or push the profile",
		want.Namespace, want.Name, known(sources.Items), api.AnnotationOSP)
}

// errUnlooked says that it is not known yet which profile a pool gets.
var errUnlooked = errors.New("has not been looked at yet")

// unlooked finds a source that nobody has looked at yet, and that may offer what a pool
// asks for. One that has no configuration of ours waits for it: when a controller comes
// to a cluster, documents are not made of another profile first.
func (r *Reconciler) unlooked(want selection.Request, osc *osm.OperatingSystemConfig, sources []api.ProfileSource) error {
	if recordOf(osc).Object != "" || want.Namespace != r.Namespace {
		return nil
	}
	for i := range sources {
		ps := &sources[i]
		if !ps.Spec.Suspend && ps.DeletionTimestamp.IsZero() && apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition) == nil {
			return fmt.Errorf("ProfileSource %q, which may offer profile %q, %w", ps.Name, want.Name, errUnlooked)
		}
	}
	return nil
}

// profileOffered reads what an inventory points to, or the version that the pool asks
// for. A profile that was removed serves the pool that has it.
func (r *Reconciler) profileOffered(ctx context.Context, want selection.Request, o selection.Candidate, osc *osm.OperatingSystemConfig) (render.Profile, error) {
	entry, err := o.Entry, error(nil)
	if want.Pin == nil {
		if entry, err = r.given(want, o, osc); err != nil {
			return render.Profile{}, err
		}
	}
	object := r.refTo(want.Namespace, entry.Object)
	switch {
	case entry.Removed:
		rec := recordOf(osc)
		if !has(want, rec) || want.Pin == nil && rec.Object != object || r.namespaceOf(rec.Object) != want.Namespace {
			return render.Profile{}, fault.Refuse("profile %q was removed from ProfileSource %q: choose another in annotation %s, or put its file back", entry.Name, o.Source.Name, api.AnnotationOSP)
		}
		object = rec.Object
	case want.Pin != nil:
		if object, err = r.pinned(ctx, want, o); err != nil {
			return render.Profile{}, err
		}
	}
	osp, err := r.namedObject(ctx, object)
	var missing *missingError
	if errors.As(err, &missing) {
		missing.err = fmt.Errorf("OperatingSystemProfile %s/%s, version %s of profile %q, is missing; ProfileSource %q makes it again when it next looks at its source", want.Namespace, entry.Object, entry.Version, entry.Name, o.Source.Name)
		return render.Profile{}, &fault.Refusal{Reason: api.EventProfileError, Err: missing}
	}
	if err != nil {
		return render.Profile{}, err
	}
	if osp.Name == o.Entry.Object && replaced(r.digests.spec(osp), o.Entry.Digest) {
		return render.Profile{}, fault.Refuse("OperatingSystemProfile %s/%s is not what ProfileSource %q found in its source, for somebody put another in its place: delete it, and it is made again", osp.Namespace, osp.Name, o.Source.Name)
	}
	p := r.profileOf(osp, entry.Name, entry.SelectedBy)
	if want.Pin != nil || entry.Removed && osp.Name != entry.Object {
		p.SelectedBy = p.Provenance.Commit
	}
	return p, nil
}

// replaced reports whether a spec is another than an inventory says. Digests of another
// recipe, as of an earlier release, cannot be compared.
func replaced(digest, listed string) bool {
	recipe, _, _ := strings.Cut(digest, ":")
	return digest != listed && strings.HasPrefix(listed, recipe+":")
}

// profileByHand uses an object that no source made as it is.
func (r *Reconciler) profileByHand(ctx context.Context, want selection.Request, osp *osm.OperatingSystemProfile, has render.Record) (render.Profile, error) {
	if want.Pin != nil && !want.Pin.Allows(osp.Spec.Version) {
		return render.Profile{}, fault.Refuse("annotation %s: OperatingSystemProfile %s/%s, which no ProfileSource made, has version %s and no other, and %q asks for another: remove the annotation, or correct it",
			api.AnnotationVersionPin, osp.Namespace, osp.Name, osp.Spec.Version, want.Pin)
	}
	p := r.profileOf(osp, want.Name, "")
	if r.Appliers == nil || osp.Labels[api.LabelSource] != "" {
		return p, nil
	}
	found, err := r.Appliers.Of(ctx, osp)
	var both *ownership.TwoError
	switch {
	case errors.As(err, &both):
		return render.Profile{}, &fault.Refusal{Reason: api.EventTwoAppliers, Err: both}
	case errors.Is(err, ownership.ErrRaced):
		return render.Profile{}, fmt.Errorf("%w: %w", fault.ErrRaced, err)
	case err != nil:
		return render.Profile{}, err
	case len(found.By) == 0:
		return p, nil
	}
	if found.Revision != "" {
		p.Provenance.Repository, p.Provenance.Path, p.Provenance.Commit = found.Repository, found.Path, found.Revision
	}
	// The same content is no reason to rotate, whoever applied it again from wherever.
	if has.Object == p.Object && has.ObjectDigest == p.Digest && has.Commit != "" {
		p.Provenance.Repository, p.Provenance.Path, p.Provenance.Commit = has.Repository, has.Path, has.Commit
	}
	return p, nil
}

// known lists the profiles there are, for someone who misspelt one.
func known(sources []api.ProfileSource) string {
	const most = 10
	var names []string
	for _, ps := range sources {
		for _, e := range ps.Status.Profiles {
			if !e.Removed {
				names = append(names, e.Name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	names = slices.Compact(names) // a built-in profile and the one that shadows it
	if len(names) > most {
		names = append(names[:most], "…")
	}
	return " (there are " + strings.Join(names, ", ") + ")"
}

// profileObject reads the object of a reference that refTo made.
func (r *Reconciler) profileObject(ctx context.Context, from client.Reader, ref string) (*osm.OperatingSystemProfile, error) {
	key := types.NamespacedName{Namespace: r.namespaceOf(ref), Name: ref[strings.Index(ref, "/")+1:]}
	if !r.mayServe(key.Namespace) {
		return nil, foreign(key.Namespace)
	}
	var osp osm.OperatingSystemProfile
	if err := from.Get(ctx, key, &osp); err != nil {
		return nil, fmt.Errorf("reading OperatingSystemProfile %s: %w", key, err)
	}
	return &osp, nil
}

// missingError says that an object which an inventory or a record names is not there.
type missingError struct {
	object string // as refTo names it
	err    error
}

func (e *missingError) Error() string { return e.err.Error() }
func (e *missingError) Unwrap() error { return e.err }

// namedObject reads an object that an inventory or a record names: where the cache has
// it not, from the API server. The two come through two watches, and this one may be
// behind.
func (r *Reconciler) namedObject(ctx context.Context, ref string) (*osm.OperatingSystemProfile, error) {
	osp, err := r.profileObject(ctx, r.Management, ref)
	if apierrors.IsNotFound(err) {
		osp, err = r.profileObject(ctx, r.Management.Live, ref)
	}
	if apierrors.IsNotFound(err) {
		return nil, &missingError{ref, err}
	}
	return osp, err
}

// noteMissing notes which objects a pool lacks, so that their creation starts it again,
// and reports whether one has come meanwhile: that one started nothing.
func (r *Reconciler) noteMissing(ctx context.Context, seen *observed, errs ...error) error {
	var lacks []string
	for _, err := range append(errs, seen.desiredErr) {
		if missing := (*missingError)(nil); errors.As(err, &missing) {
			lacks = append(lacks, missing.object)
		}
	}
	if len(lacks)+len(r.memories.recall(seen.md).lacks) == 0 {
		return nil
	}
	r.memories.remember(seen.md, func(m *memory) { m.lacks = lacks })
	for _, ref := range lacks {
		if _, err := r.profileObject(ctx, r.Management, ref); err == nil {
			return fmt.Errorf("%w: OperatingSystemProfile %s is there", fault.ErrRaced, ref)
		}
	}
	return nil
}

// profileOf turns an object into what rendering reads. What the annotations say
// of its origin counts only where the digest they name is the content's.
func (r *Reconciler) profileOf(osp *osm.OperatingSystemProfile, name, selectedBy string) render.Profile {
	digest := r.digests.spec(osp)
	p := render.Profile{
		Spec: osp.Spec, Object: r.refTo(osp.Namespace, osp.Name), Digest: digest, SelectedBy: selectedBy,
		Provenance: render.Provenance{Profile: name, Version: osp.Spec.Version},
	}
	if a := osp.Annotations; a[api.AnnotationDigest] == digest {
		p.Provenance.Repository = a[api.AnnotationRepository]
		p.Provenance.Path = a[api.AnnotationPath]
		p.Provenance.Commit = a[api.AnnotationCommit]
		p.Provenance.Change = a[api.AnnotationChange]
	}
	return p
}

// recordOf reads the record of a configuration. It is zero where there is none
// or where it cannot be read.
func recordOf(osc *osm.OperatingSystemConfig) render.Record {
	if osc == nil {
		return render.Record{}
	}
	return parseRecord(osc.Annotations[api.AnnotationRecord])
}

// restore rebuilds the input of a generation from its record, with the tokens, the
// server and the CA as they are now.
func (r *Reconciler) restore(ctx context.Context, md *cluster.MachineDeployment, rec render.Record, values render.Cluster) (render.Input, error) {
	if rec.Object == "" {
		return render.Input{}, fmt.Errorf("OperatingSystemConfig %s/%s is missing or was edited, and its record is not kept elsewhere", r.Namespace, namesOf(md).Config)
	}
	osp, err := r.namedObject(ctx, rec.Object)
	if err != nil {
		return render.Input{}, fault.Reading(err)
	}
	settings, err := r.keptSettings(ctx, rec.SettingsDigest)
	if err != nil {
		return render.Input{}, err
	}
	in, err := rec.Input(osp.Spec, r.digests.spec(osp), settings)
	if err != nil {
		return render.Input{}, err
	}
	if got := in.InputDigest(); got != rec.Digests.Input {
		return render.Input{}, fmt.Errorf("the record of OperatingSystemConfig %s was edited: its content has digest %s, it says %s", namesOf(md).Config, got, rec.Digests.Input)
	}
	in.Settings.KubernetesCACert, in.Cluster = r.Settings.KubernetesCACert, values
	_, hidden := in.Split()
	if hidden.Empty() {
		return in, nil
	}
	credentials, err := r.keptCredentials(ctx, md, rec.Digests.Input)
	if err != nil {
		return render.Input{}, err
	}
	return in.WithCredentials(credentials), nil
}

// keptSettings reads settings from the ConfigMap that is named by their digest.
func (r *Reconciler) keptSettings(ctx context.Context, digest string) ([]byte, error) {
	key := types.NamespacedName{Namespace: r.Namespace, Name: lineage.SettingsName(digest)}
	var cm corev1.ConfigMap
	if err := r.Management.Live.Get(ctx, key, &cm); err != nil {
		return nil, fault.Reading(fmt.Errorf("reading settings %s: %w", key, err))
	}
	return []byte(cm.Data[lineage.SettingsKey]), nil
}

// keptCredentials reads the credentials of a generation from the pool's Secret.
func (r *Reconciler) keptCredentials(ctx context.Context, md *cluster.MachineDeployment, inputDigest string) (render.Credentials, error) {
	key := types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: namesOf(md).Inputs}
	var secret corev1.Secret
	if err := r.Worker.Live.Get(ctx, key, &secret); err != nil {
		return render.Credentials{}, fault.Reading(fmt.Errorf("reading credentials %s: %w", key, err))
	}
	var c render.Credentials
	data, ok := secret.Data[render.ShortDigest(inputDigest)]
	if !ok {
		return c, fmt.Errorf("the Secret %s has no credentials for the input digest %s", key, inputDigest)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("reading credentials %s: the JSON is broken", key)
	}
	return c, nil
}
