package commitstatus

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
)

// rolloutProgress counts the pools of a commit's changes: all, those that are rotated, and those
// that rejected it.
type rolloutProgress struct {
	pools, rotated, rejected int
}

// settled reports that no further progress is expected.
func (f rolloutProgress) settled() bool { return f.rotated+f.rejected == f.pools }

// readRolloutProgress counts the pools whose configuration has one of the profiles: as rotated if
// their machines boot from the new version, as refused if the pool rejects that version.
// secrets reads the Secrets of pools; while it is nil no pool counts as rotated. Both
// read from caches.
func readRolloutProgress(ctx context.Context, c, secrets client.Reader, namespace string, changed map[string]api.ProfileEntry) (rolloutProgress, error) {
	var f rolloutProgress
	if len(changed) == 0 {
		return f, nil
	}
	configs, err := kubeclient.ListConfigMetadata(ctx, c, namespace)
	if err != nil {
		return f, err
	}
	for i := range configs {
		a := configs[i].Annotations
		entry, ok := changed[a[api.AnnotationProfile]]
		if !ok {
			continue
		}
		f.pools++
		switch rejected := a[api.AnnotationRefused] != ""; {
		case rejected && (a[api.AnnotationRefusedVersion] == "" || a[api.AnnotationRefusedVersion] == entry.Version):
			f.rejected++
		case rejected: // an earlier version: the pool has not processed this one
		case a[api.AnnotationVersion] == entry.Version && a[api.AnnotationCommit] == entry.Commit:
			boots, err := bootsFrom(ctx, secrets, a)
			if err != nil {
				return f, err
			}
			if boots {
				f.rotated++
			}
		}
	}
	return f, nil
}

// bootsFrom reports whether the bootstrap Secret of a pool, which is written last,
// belongs to the configuration with these annotations.
func bootsFrom(ctx context.Context, secrets client.Reader, config map[string]string) (bool, error) {
	if secrets == nil {
		return false, nil
	}
	pool, _ := lineage.ParsePool(config[api.AnnotationPool])
	key := types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: lineage.NamesOf(pool).Bootstrap}
	var secret corev1.Secret
	if err := secrets.Get(ctx, key, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return secret.Annotations[api.AnnotationInputDigest] == config[api.AnnotationInputDigest], nil
}

// describe summarizes the outcome of a commit, in at most maxDescription characters.
func (f rolloutProgress) describe(profiles int) string {
	s := phrase.Count(profiles, "profile") + " applied, "
	if f.rotated == f.pools {
		s += phrase.Count(f.pools, "pool") + " rotated"
	} else {
		s += fmt.Sprintf("%d of %s rotated", f.rotated, phrase.Count(f.pools, "pool"))
	}
	if f.rejected > 0 {
		s += fmt.Sprintf(", %d refused", f.rejected)
	}
	return s
}
