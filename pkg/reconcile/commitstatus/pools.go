package commitstatus

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// following says how far pools are with what a commit changed.
type following struct {
	pools, rotated, refused int
}

// settled reports that nothing more is to be expected.
func (f following) settled() bool { return f.rotated+f.refused == f.pools }

// follow counts the pools whose configuration has one of the profiles, by what
// their OperatingSystemConfigs record. They come from the cache.
func follow(ctx context.Context, c client.Reader, namespace string, changed map[string]api.ProfileEntry) (following, error) {
	var f following
	if len(changed) == 0 {
		return f, nil
	}
	var list osm.OperatingSystemConfigList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return f, fmt.Errorf("listing OperatingSystemConfigs: %w", err)
	}
	for _, osc := range list.Items {
		entry, ok := changed[osc.Annotations[api.AnnotationProfile]]
		if !ok {
			continue
		}
		f.pools++
		switch {
		case osc.Annotations[api.AnnotationRefused] != "":
			f.refused++
		case osc.Annotations[api.AnnotationVersion] == entry.Version && osc.Annotations[api.AnnotationCommit] == entry.Commit:
			f.rotated++
		}
	}
	return f, nil
}

// describe says what came of a commit, in at most maxDescription characters.
func (f following) describe(profiles int) string {
	s := plural(profiles, "profile") + " applied, "
	if f.rotated == f.pools {
		s += plural(f.pools, "pool") + " rotated"
	} else {
		s += fmt.Sprintf("%d of %s rotated", f.rotated, plural(f.pools, "pool"))
	}
	if f.refused > 0 {
		s += fmt.Sprintf(", %d refused", f.refused)
	}
	return s
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
