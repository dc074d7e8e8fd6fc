package profilesource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

// archive is what is remembered of the versions of a source between looks.
type archive struct {
	refused  map[string]string                      // refusedKey -> why the API server does not take it
	skipped  string                                 // what was told of versions that cannot be had
	recorded map[string]time.Time                   // objects that archived records name, and when they were seen
	deleted  map[string]*osm.OperatingSystemProfile // what was deleted and is in no history
	failed   string                                 // what was told of writes that are refused
}

func newArchive() *archive {
	return &archive{refused: map[string]string{}, recorded: map[string]time.Time{}, deleted: map[string]*osm.OperatingSystemProfile{}}
}

// shelves are all versions of a look: one shelf for each profile that the source
// offers, lists or has objects of.
type shelves struct {
	byName  map[string]*shelf
	current map[string]profile.Version
	skipped []string        // versions of the history that cannot be had, and why
	foreign map[string]bool // objects that inventories of other sources name
}

func (s *shelves) skip(v profile.Version, why string) {
	s.skipped = append(s.skipped, fmt.Sprintf("%s %s (%s)", v.Name, v.Version, why))
}

// collect finds the versions there are of every profile, and who wants them.
func (r *Reconciler) collect(ctx context.Context, l look, cat *profile.Catalogue, want wanted, others []api.ProfileSource) (*shelves, error) {
	objects, err := r.objectsOf(ctx, l.source, want, others)
	if err != nil {
		return nil, err
	}
	used, err := r.used(ctx, l.source.Namespace)
	if err != nil {
		return nil, err
	}
	rolled := selection.ObjectsInRollout(l.source)
	s := &shelves{byName: map[string]*shelf{}, current: want.current, foreign: map[string]bool{}}
	for _, other := range others {
		for _, e := range other.Status.Profiles {
			s.foreign[e.Object] = true
		}
	}
	names := map[string]bool{}
	for name := range want.current {
		names[name] = true
	}
	for name := range objects {
		names[name] = true
	}
	for _, e := range l.source.Status.Profiles {
		names[e.Name] = true
	}
	known := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		pins, err := r.pins(ctx, l.source.Namespace, name)
		if err != nil {
			return nil, err
		}
		current, live := want.current[name]
		sh := &shelf{name: name, live: live, current: current, unread: want.keep[name], demand: demand{pins: pins, used: used, rolled: rolled}}
		all := editionsOf(l.source, cat.History[name], objects[name])
		for _, e := range all {
			if e.history != nil {
				known[refusedKey(l.source, *e.history)] = true
			}
		}
		sh.editions, err = r.servable(ctx, l, s, all)
		if err != nil {
			return nil, err
		}
		s.byName[name] = sh
	}
	maps.DeleteFunc(l.archive.refused, func(key, _ string) bool { return !known[key] })
	for _, ref := range cat.Skipped {
		s.skipped = append(s.skipped, fmt.Sprintf("%s %s (%v)", ref.Profile, ref.Version, ref))
	}
	return s, nil
}

// refusedKey is what refused remembers a version of the history by.
func refusedKey(ps *api.ProfileSource, v profile.Version) string { return objectName(ps, v) + v.Digest }

// objectsOf lists the objects of a source by profile: those it made, and those that
// a source which is gone made of a profile it offers now.
func (r *Reconciler) objectsOf(ctx context.Context, ps *api.ProfileSource, want wanted, others []api.ProfileSource) (map[string][]*osm.OperatingSystemProfile, error) {
	var list osm.OperatingSystemProfileList
	err := r.Client.List(ctx, &list, client.InNamespace(ps.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing OperatingSystemProfiles: %w", err)
	}
	taken := map[string]bool{api.DefaultsName: true}
	for _, other := range others {
		taken[other.Name] = true
	}
	out := map[string][]*osm.OperatingSystemProfile{}
	for i := range list.Items {
		o := &list.Items[i]
		name, from := o.Labels[api.LabelProfile], o.Labels[api.LabelSource]
		_, offered := want.current[name]
		if name != "" && (from == ps.Name || offered && !taken[from]) {
			out[name] = append(out[name], o)
		}
	}
	return out, nil
}

// servable leaves out the editions that are in the history and cannot become
// objects: the API server refuses them, or nobody vouches for them. Beyond the
// newest it does not look.
func (r *Reconciler) servable(ctx context.Context, l look, s *shelves, all []edition) ([]edition, error) {
	var out []edition
	looked := 0
	for _, e := range all {
		if e.object == nil && !e.is(s.current[e.history.Name]) {
			why := l.archive.refused[refusedKey(l.source, *e.history)]
			if looked++; why == "" && looked <= maxListed {
				var err error
				if why, err = l.approval.vouch(ctx, l.snapshot, *e.history); err != nil {
					return nil, err
				}
			}
			if why != "" {
				s.skip(*e.history, why)
				continue
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// addVersions completes the inventory: what else of each profile pools may ask for.
// A profile that left the source is dropped from it once nobody has it or names it.
func (r *Reconciler) addVersions(ctx context.Context, ps *api.ProfileSource, entries []api.ProfileEntry, s *shelves) ([]api.ProfileEntry, error) {
	was := map[string]bool{}
	for _, e := range ps.Status.Profiles {
		was[e.Name] = e.Removed
	}
	var out []api.ProfileEntry
	// The inventory is one object, which has to stay below what etcd takes.
	listed := min(maxListed, max(historyLimit(ps), allListed/max(len(entries), 1)))
	for _, e := range entries {
		sh := s.byName[e.Name]
		if e.Removed && was[e.Name] && prunes(ps) && len(sh.demand.used[e.Name]) == 0 {
			named, err := r.named(ctx, ps.Namespace, e.Name)
			if err != nil {
				return nil, err
			}
			if !named {
				continue
			}
		}
		sh.entry = e
		e.Versions = slices.DeleteFunc(sh.index(listed), func(v string) bool { return v == e.Version })
		if e.Removed || len(e.Versions) == 0 {
			e.Versions = nil // nobody gets them, or there are none
		}
		out = append(out, e)
	}
	return out, nil
}

// settle brings the superseded versions in line with who wants them, once the
// inventory is written: nobody who follows the current version waits for that.
func (r *Reconciler) settle(ctx context.Context, out outcome) error {
	l, s := out.look, out.shelves
	var made, gone []string
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		sh := s.byName[name]
		keep := sh.retained(historyLimit(l.source))
		for i, e := range sh.editions {
			if !keep[i] || e.object != nil || e.history == nil || e.is(sh.current) {
				continue // there, or seen to already
			}
			created, err := r.restock(ctx, l, s, *e.history)
			errs = append(errs, err)
			if created {
				made = append(made, name+" "+e.version)
			}
		}
		back, err := r.bringBack(ctx, l, sh)
		made, errs = append(made, back...), append(errs, err)
	}
	if prunes(l.source) {
		var err error
		gone, err = r.prune(ctx, l, s)
		errs = append(errs, err)
	}
	if len(made) > 0 {
		r.event(l.source, corev1.EventTypeNormal, api.EventProfileCreated, "%s in the cluster: %s", is(len(made), "earlier version"), strings.Join(made, ", "))
	}
	if len(gone) > 0 {
		r.event(l.source, corev1.EventTypeNormal, api.EventProfilePruned, "%s deleted, to which nothing refers: %s", is(len(gone), "version"), strings.Join(gone, ", "))
	}
	r.tellSkipped(l, s)
	return r.refusedWrites(ctx, l, errors.Join(errs...))
}

func is(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return count(n, noun) + " are"
}

// restock makes the object of a superseded version. What the API server refuses is
// no fault of the source.
func (r *Reconciler) restock(ctx context.Context, l look, s *shelves, v profile.Version) (bool, error) {
	if why, err := l.approval.vouch(ctx, l.snapshot, v); err != nil || why != "" {
		if why != "" {
			s.skip(v, why)
		}
		return false, err
	}
	made, _, err := r.ensure(ctx, l, v)
	var conflict *conflictError
	if errors.As(err, &conflict) {
		l.archive.refused[refusedKey(l.source, v)] = err.Error()
		s.skip(v, err.Error())
		return false, nil
	}
	return made, err
}

// bringBack makes objects again that were deleted just before somebody used them,
// and of which the source knows nothing any more.
func (r *Reconciler) bringBack(ctx context.Context, l look, sh *shelf) ([]string, error) {
	var made []string
	for name, o := range l.archive.deleted {
		if o.Labels[api.LabelProfile] != sh.name || !sh.demand.used.of(o) {
			continue
		}
		again := &osm.OperatingSystemProfile{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Labels: o.Labels, Annotations: o.Annotations},
			Spec:       o.Spec,
		}
		if err := r.Client.Create(ctx, again, client.FieldOwner(api.FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
			return made, fmt.Errorf("creating OperatingSystemProfile %s again: %w", client.ObjectKeyFromObject(o), err)
		}
		delete(l.archive.deleted, name)
		made = append(made, sh.name+" "+versionOf(o))
	}
	return made, nil
}

// tellSkipped says once which versions of the history cannot be had.
func (r *Reconciler) tellSkipped(l look, s *shelves) {
	text := strings.Join(s.skipped, "; ")
	if text == l.archive.skipped {
		return
	}
	l.archive.skipped = text
	if text != "" {
		r.event(l.source, corev1.EventTypeWarning, api.EventProfileSkipped, "%s of the history cannot be had by pools: %s", count(len(s.skipped), "version"), text)
	}
}

// refusedWrites tells what the API server will go on refusing, a missing right or a
// policy, and lets looking go on: everything that is current is applied.
func (r *Reconciler) refusedWrites(ctx context.Context, l look, err error) error {
	if err == nil {
		l.archive.failed = ""
		return nil
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		return err
	}
	if text := err.Error(); text != l.archive.failed {
		l.archive.failed = text
		ctrl.LoggerFrom(ctx).Error(err, "keeping earlier versions of profiles")
		r.event(l.source, corev1.EventTypeWarning, api.EventWriteRefused, "%v", err)
	}
	return nil
}

// vouch says why a version must not be made that an earlier commit holds, or the base of
// which one does, "" where it may: where signatures are demanded that commit needs a good
// one, of somebody who may change the file. The key may have ended since. What lies in
// the source is approved with it.
func (a approval) vouch(ctx context.Context, snap *source.Snapshot, v profile.Version) (string, error) {
	for at := &v; at != nil; at = at.From {
		why, err := a.vouchOne(ctx, snap, *at)
		if why != "" && at != &v {
			why = fmt.Sprintf("of its base, profile %q %s from %s, %s", at.Name, at.Version, at.Path, why)
		}
		if err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

func (a approval) vouchOne(ctx context.Context, snap *source.Snapshot, v profile.Version) (string, error) {
	if a.keys == nil || v.Commit == "" || v.AtHead {
		return "", nil
	}
	good, err := snap.SignatureOf(ctx, v.Commit, a.keys)
	var bad *signature.Error
	switch {
	case errors.As(err, &bad):
		return fmt.Sprintf("its commit %s: %s", v.Commit, bad.Message), nil
	case err != nil:
		return "", fmt.Errorf("reading the signature of commit %s: %w", v.Commit, err)
	}
	for _, p := range a.paths {
		if p.Matches(v.Path) && !good.By(p.Principals) {
			return fmt.Sprintf("its commit %s is signed by %s, but what matches %q may be changed by %s only", v.Commit, good.Signature, p.Glob, strings.Join(p.Principals, ", ")), nil
		}
	}
	return "", nil
}

// nameOf is how an event names an object's version.
func nameOf(o *osm.OperatingSystemProfile) string {
	return cmp.Or(o.Labels[api.LabelProfile], o.Name) + " " + versionOf(o)
}
