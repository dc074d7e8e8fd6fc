package selection

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
)

// Request is the request in the annotations of a pool.
type Request struct {
	Name, Namespace string
	Pin             *version.Pin // nil for the current version
	Wave            int32        // in which it gets a new version
}

// RequestOf reads the annotations and labels of a pool. The default namespace of profiles
// is the controller's. If the version is invalid, it returns an error with the rest of the
// request.
func RequestOf(annotations, labels map[string]string, namespace string) (Request, error) {
	r := Request{Name: annotations[api.AnnotationOSP], Namespace: cmp.Or(annotations[api.AnnotationOSPNamespace], namespace)}
	r.Wave, _ = WaveOf(labels) // the rollout reports an invalid one
	if text := annotations[api.AnnotationVersionPin]; text != "" {
		pin, err := version.ParsePin(text)
		if err != nil {
			return r, fmt.Errorf("annotation %s: %q %w; or remove it, for the current version", api.AnnotationVersionPin, TruncateAnnotation(text), err)
		}
		r.Pin = &pin
	}
	return r, nil
}

// TruncateAnnotation truncates the value of an annotation.
func TruncateAnnotation(text string) string {
	const most = 100 // bytes
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// IsSatisfiedBy reports whether a version of a profile satisfies the request.
func (r Request) IsSatisfiedBy(name, version string) bool {
	return name == r.Name && (r.Pin == nil || r.Pin.Allows(version))
}

// BestVersion returns the best version for a request with a pin. The error names the nearest
// versions and their source, as in `ProfileSource "team"`.
func (r Request) BestVersion(from string, available []string) (string, error) {
	best, ok := r.Pin.Best(available)
	if !ok {
		return "", fmt.Errorf("annotation %s: profile %q of %s has no version %q; nearest are %s: correct the annotation, or push that version",
			api.AnnotationVersionPin, r.Name, from, r.Pin, strings.Join(r.Pin.Nearest(available), ", "))
	}
	return best, nil
}

// Suspended reports whether the configuration of a pool is frozen.
func Suspended(annotations map[string]string) (bool, error) {
	switch text := annotations[api.AnnotationSuspend]; text {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	default:
		return false, fmt.Errorf("annotation %s: %q is neither \"true\", which freezes the configuration, nor \"false\": correct it, or remove it", api.AnnotationSuspend, TruncateAnnotation(text))
	}
}

// Candidate is a profile in the inventory of a source.
type Candidate struct {
	Entry  api.ProfileEntry
	Source *api.ProfileSource // read-only
}

// Versions returns the versions that the inventory offers, the current one last.
func (c Candidate) Versions() []string {
	return append(slices.Clone(c.Entry.Versions), c.Entry.Version)
}

// SplitBuiltin separates the sources that users created from that of the built-in profiles.
func SplitBuiltin(sources []api.ProfileSource) (userSources, builtin []api.ProfileSource) {
	for _, ps := range sources {
		if ps.Spec.Builtin != nil {
			builtin = append(builtin, ps)
		} else {
			userSources = append(userSources, ps)
		}
	}
	return userSources, builtin
}

// FindCandidate finds a profile in the inventories. A profile that is still in its source
// has precedence over a removed one; then the older source wins.
func FindCandidate(sources []api.ProfileSource, name string) (Candidate, bool) {
	sources = slices.Clone(sources)
	sort.SliceStable(sources, func(i, j int) bool {
		a, b := sources[i], sources[j]
		if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
			return a.CreationTimestamp.Before(&b.CreationTimestamp)
		}
		return a.Name < b.Name
	})
	var found Candidate
	for _, ps := range sources {
		for _, e := range ps.Status.Profiles {
			if e.Name == name && (found.Source == nil || found.Entry.Removed && !e.Removed) {
				found = Candidate{Entry: e, Source: &ps}
			}
		}
	}
	return found, found.Source != nil
}

// UserSourceProviding returns the name of the ProfileSource that users created whose inventory
// provides a profile for pools; "" if there is none.
func UserSourceProviding(sources []api.ProfileSource, profile string) string {
	userSources, _ := SplitBuiltin(sources)
	if c, ok := FindCandidate(userSources, profile); ok {
		return c.Source.Name
	}
	return ""
}
