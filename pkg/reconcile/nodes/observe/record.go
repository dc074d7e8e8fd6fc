package observe

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// ConfigurationOf returns the origin of a generation: from its record, and for fields
// that records lack from the profile's object.
func (r *Reader) ConfigurationOf(ctx context.Context, pool types.NamespacedName, g *lineage.Generation) (*api.ProvenanceConfiguration, error) {
	if made, ok := r.configurations.get(g.InputDigest); ok {
		// Generations with the same input can have been selected by different commits.
		made.SelectedBy = g.SelectedBy
		return &made, nil
	}
	rec, err := r.ReadRecord(ctx, pool, g)
	if err != nil {
		return nil, err
	}
	made := api.ProvenanceConfiguration{
		InputDigest: rec.Digests.Input, Profile: lineage.ProfileOrObjectName(rec), Version: rec.Version, Object: rec.Object, ProfileDigest: rec.ObjectDigest,
		Repository: rec.Repository, Path: rec.Path, Commit: rec.Commit, ShortCommit: redact.ShortCommit(rec.Commit), Change: rec.Change, Engine: rec.Engine,
	}
	if err := r.addAuthorAndSignature(ctx, &made); err != nil {
		return nil, err
	}
	r.configurations.put(g.InputDigest, made)
	made.SelectedBy = g.SelectedBy
	return &made, nil
}

// ReadRecord reads the record of a generation, archived or on the pool's configuration.
// If the record was archived in the meantime, the next attempt finds it.
func (r *Reader) ReadRecord(ctx context.Context, pool types.NamespacedName, g *lineage.Generation) (render.Record, error) {
	if g.Record == "" {
		osc, err := r.configOf(ctx, pool, true)
		if err != nil {
			return render.Record{}, err
		}
		if osc != nil {
			if rec, ok := lineage.IntactRecordOf(osc); ok && rec.Digests.Input == g.InputDigest {
				return rec, nil
			}
		}
		return render.Record{}, fmt.Errorf("the configuration of pool %s was replaced meanwhile", pool)
	}
	var archived appsv1.ControllerRevision
	key := types.NamespacedName{Namespace: r.Namespace, Name: g.Record}
	if err := r.Management.Live.Get(ctx, key, &archived); err != nil {
		return render.Record{}, fmt.Errorf("reading ControllerRevision %s: %w", key, err)
	}
	stored := lineage.ArchivedRecord(&archived)
	if !stored.IsIntactOf(g.InputDigest) {
		return render.Record{}, &editedRecordError{key}
	}
	return stored.Record, nil
}

// editedRecordError says that an archived record is not the one that its annotation names.
type editedRecordError struct{ revision types.NamespacedName }

func (e *editedRecordError) Error() string {
	return fmt.Sprintf("the ControllerRevision %s does not have the record that its annotation %s names: it was edited: delete it", e.revision, api.AnnotationInputDigest)
}

// addAuthorAndSignature adds the origin in the annotations of the profile's object, if its content is
// that of the record.
func (r *Reader) addAuthorAndSignature(ctx context.Context, to *api.ProvenanceConfiguration) error {
	osp, err := r.profileOf(ctx, to.Object, to.ProfileDigest)
	if err != nil || osp == nil {
		return err
	}
	a := osp.Annotations
	// security.md 28: anyone can choose the name of an author.
	to.Author = redact.PrintableLine(a[api.AnnotationAuthor])
	to.Signature = redact.PrintableLine(a[api.AnnotationSignature])
	to.CommittedAt = redact.Shorten(a[api.AnnotationCommittedAt], 64)
	return nil
}

// profileOf reads the object of a profile, if it exists with the content of a digest.
func (r *Reader) profileOf(ctx context.Context, object, digest string) (*osm.OperatingSystemProfile, error) {
	key := lineage.ProfileKey(r.Namespace, object)
	if key.Namespace != r.Namespace && !slices.Contains(r.ProfileNamespaces, key.Namespace) && !slices.Contains(r.ProfileNamespaces, allNamespaces) {
		return nil, nil // no longer allowed (security.md 24)
	}
	var osp osm.OperatingSystemProfile
	found, err := kubeclient.Find(ctx, r.Management, key, &osp)
	if err != nil || !found || osp.Annotations[api.AnnotationDigest] != digest || profile.Digest(osp.Spec) != digest {
		return nil, err
	}
	return &osp, nil
}
