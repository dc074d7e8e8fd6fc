package profilesource

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// wanted is the desired state according to a catalogue.
type wanted struct {
	apply     []profile.Version          // current versions that this source may offer
	unchanged map[string]bool            // profiles that could not be read and remain unchanged
	rejected  []error                    // files, versions and profiles that are not applied
	current   map[string]profile.Version // apply by name
	// noHistory makes the inventory retain the commit with which a version was first seen.
	noHistory bool
}

// decide compares a catalogue with the inventory and with other sources.
func decide(ps *api.ProfileSource, snap *source.Snapshot, cat *profile.Catalogue, others []api.ProfileSource) wanted {
	w := wanted{unchanged: map[string]bool{}, current: map[string]profile.Version{}, noHistory: len(snap.Line) == 0}
	unread := map[string]bool{}
	for _, ref := range cat.Rejected {
		w.rejected = append(w.rejected, ref)
		unread[ref.File()] = true
	}
	stays := baseless(ps, cat)
	maps.Copy(w.unchanged, stays)
	mine := map[string]bool{}
	for _, e := range ps.Status.Profiles {
		mine[e.Name] = !e.Removed
		// Without a history only the inventory knows which profile a broken file contained.
		if len(snap.Line) == 0 && unread[e.Path] {
			w.unchanged[e.Name] = true
		}
	}
	for _, v := range cat.Current {
		if stays[v.Name] {
			continue // do not return to the profile that the file contained before its overlay
		}
		if owner := claimedBy(ps, v.Name, mine[v.Name], others); owner != "" {
			w.rejected = append(w.rejected, fmt.Errorf("%s: profile %q is already offered by ProfileSource %q: remove it from one of the two sources", v.CurrentPath, v.Name, owner))
			continue
		}
		w.apply = append(w.apply, v)
		w.current[v.Name] = v
	}
	return w
}

// baseless returns the profiles in the inventory that were made from a ProfileOverlay whose
// base no longer exists: it was built in, and this release contains another version. The
// result of the overlay still exists as an object, and stays current until Git changes it.
func baseless(ps *api.ProfileSource, cat *profile.Catalogue) map[string]bool {
	out := map[string]bool{}
	for _, ref := range cat.Rejected {
		var missing *profile.MissingBaseError
		if !errors.As(ref, &missing) {
			continue
		}
		for _, e := range ps.Status.Profiles {
			if e.Name == ref.Profile && e.Version == ref.Version && !e.Removed {
				out[e.Name] = true
			}
		}
	}
	return out
}

// claimedBy returns the name of another source that owns a profile, or "". A source that
// offers a profile owns it; if two offer it, the older source does. Built-in profiles have
// no owner: another source shadows them, and they are offered again when it is deleted.
func claimedBy(ps *api.ProfileSource, name string, mine bool, others []api.ProfileSource) string {
	if isBuiltin(ps) {
		return ""
	}
	for _, other := range others {
		if isBuiltin(&other) || !other.DeletionTimestamp.IsZero() {
			continue
		}
		for _, e := range other.Status.Profiles {
			if e.Name != name || e.Removed {
				continue
			}
			if !mine || older(other.ObjectMeta, ps.ObjectMeta) {
				return other.Name
			}
		}
	}
	return ""
}

// isBuiltin reports whether this is the source of the built-in profiles.
func isBuiltin(ps *api.ProfileSource) bool { return ps.Spec.Builtin != nil }

// objectName returns the name of the object of a version.
func objectName(ps *api.ProfileSource, v profile.Version) string {
	if isBuiltin(ps) {
		return profile.BuiltinObjectName(v.Name, v.Version, v.Digest)
	}
	return profile.ObjectName(v.Name, v.Version, v.Digest)
}

func older(a, b metav1.ObjectMeta) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// inventory returns the new inventory. The entry of a profile that cannot be applied is
// unchanged; a profile that left the source is marked as removed.
func inventory(ps *api.ProfileSource, w wanted, did applied, objectName func(*api.ProfileSource, profile.Version) string) []api.ProfileEntry {
	out := map[string]api.ProfileEntry{}
	known := map[string]api.ProfileEntry{}
	for _, e := range ps.Status.Profiles {
		known[e.Name] = e
		_, current := w.current[e.Name]
		e.Removed = !current && !w.unchanged[e.Name]
		out[e.Name] = e
	}
	for name, v := range w.current {
		if did.failed[name] {
			continue
		}
		e := api.ProfileEntry{
			Name: name, Version: v.Version, Object: objectName(ps, v),
			Path: v.CurrentPath, Commit: string(v.Commit), SelectedBy: string(v.SelectedBy), Digest: v.Digest,
			Signature: did.signatures[name],
		}
		// Without a history, the first commit that was seen with this content remains: a newer
		// one changed something different.
		if had := known[name]; w.noHistory && had.Version == e.Version && had.Digest == e.Digest && had.Commit != "" {
			e.Commit = had.Commit
			if !had.Removed {
				e.SelectedBy = had.SelectedBy
			}
		}
		out[name] = e
	}
	return slices.SortedFunc(maps.Values(out), func(a, b api.ProfileEntry) int { return cmp.Compare(a.Name, b.Name) })
}

// origin is the source, snapshot and author of a version.
type origin struct {
	source   *api.ProfileSource
	snapshot *source.Snapshot
	version  profile.Version
	author   source.Author // zero if the source has no history

	signature string // "" if signatures are not required
}

// object returns the immutable object of one version.
func object(key types.NamespacedName, from origin, doc profile.Document) *osm.OperatingSystemProfile {
	ps, snap, v, author := from.source, from.snapshot, from.version, from.author
	annotations := map[string]string{
		api.AnnotationRepository: redact.Clean(snap.Repository),
		api.AnnotationRevision:   redact.Clean(snap.Revision),
		api.AnnotationVersion:    v.Version,
		api.AnnotationPath:       redact.Clean(v.Path),
		api.AnnotationDigest:     v.Digest,
	}
	if v.Commit != "" {
		annotations[api.AnnotationCommit] = string(v.Commit)
	}
	maps.Copy(annotations, basis(v.From))
	if from.signature != "" {
		annotations[api.AnnotationSignature] = from.signature
	}
	if author.Commit != "" {
		annotations[api.AnnotationCommittedAt] = v.CommittedAt.UTC().Format(time.RFC3339)
		annotations[api.AnnotationChange] = string(author.Commit)
		annotations[api.AnnotationAuthor] = redact.Clean(fmt.Sprintf("%s <%s>", author.Name, author.Email))
		if subject := redact.Subject(author.Subject); subject != "" {
			annotations[api.AnnotationSubject] = subject
		}
	}
	return &osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{
			Name: key.Name, Namespace: key.Namespace,
			Labels: map[string]string{
				api.LabelManagedBy: api.FieldManager,
				api.LabelProfile:   v.Name,
				api.LabelSource:    ps.Name,
				api.LabelVersion:   profile.LabelVersion(v.Version),
			},
			Annotations: annotations,
		},
		Spec: doc.Spec,
	}
}

// basis returns the annotations about the base of an overlay, nil for other profiles.
func basis(from *profile.Version) map[string]string {
	if from == nil {
		return nil
	}
	out := map[string]string{
		api.AnnotationBase: from.Name + " " + from.Version, api.AnnotationBaseDigest: from.Digest, api.AnnotationBasePath: redact.Clean(from.Path),
	}
	if from.Commit != "" {
		out[api.AnnotationBaseCommit] = string(from.Commit)
	}
	return out
}

// failureClass states how a failure appears in the conditions.
type failureClass struct {
	reason string
	final  bool // only another spec or another commit fixes it
}

// classify returns the class of an error of sync.
func classify(err error) failureClass {
	var spec *fetcher.SpecError
	var wait *fetcher.WaitError
	var unverified *unverifiedError
	var rewrite *rewriteError
	var artifact *fetcher.ArtifactError
	// Types of this program come first, because they can wrap a class of package source.
	switch {
	case errors.As(err, &spec):
		return failureClass{spec.Reason, true}
	case errors.As(err, &unverified) && !unverified.wait:
		return failureClass{api.ReasonVerificationFailed, true}
	case errors.As(err, &unverified):
		return failureClass{"DependencyNotReady", false}
	case errors.As(err, &rewrite):
		return failureClass{api.ReasonHistoryRewritten, true}
	case errors.As(err, &wait):
		return failureClass{"DependencyNotReady", false}
	case errors.As(err, &artifact):
		return failureClass{meta.ArtifactFailedReason, false}
	case errors.Is(err, source.ErrAuthentication):
		return failureClass{api.ReasonAuthenticationFailed, true}
	case errors.Is(err, source.ErrHostKey):
		return failureClass{api.ReasonHostKeyRefused, true}
	case errors.Is(err, source.ErrNotFound):
		return failureClass{api.ReasonReferenceNotFound, true}
	case errors.Is(err, source.ErrUnsupported):
		return failureClass{api.ReasonUnsupported, true}
	case errors.Is(err, source.ErrInvalid):
		return failureClass{api.ReasonSourceInvalid, true}
	case errors.Is(err, source.ErrUnreachable):
		return failureClass{api.ReasonUnreachable, false}
	}
	return failureClass{meta.FailedReason, false}
}
