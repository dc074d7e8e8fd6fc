package trace

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// EditedError says that an object was edited after it was written.
type EditedError struct {
	Object Object
	Why    string
}

func (e *EditedError) Error() string { return fmt.Sprintf("%s was edited: %s", e.Object, e.Why) }

// ReadRecord reads the record of a pool's generation, of the whole input digest, from the
// pool's OperatingSystemConfig or from the archive. The error is a *NotFoundError where
// there is none, and an *EditedError where what there is does not have that digest.
func (c Clusters) ReadRecord(ctx context.Context, pool types.NamespacedName, inputDigest string) (*lineage.StoredRecord, error) {
	state, err := c.recordedStateOf(ctx, pool)
	if err != nil {
		return nil, err
	}
	return c.recordIn(ctx, state, pool, inputDigest)
}

func (c Clusters) recordIn(ctx context.Context, recorded *recordedState, pool types.NamespacedName, inputDigest string) (*lineage.StoredRecord, error) {
	if recorded.rec != nil && recorded.rec.Digests.Input == inputDigest {
		return &lineage.StoredRecord{Record: *recorded.rec, Config: recorded.config}, nil
	}
	stored, err := lineage.FindArchivedRecord(ctx, recordReader{c}, c.Namespace, pool, inputDigest, func(s *lineage.StoredRecord) bool {
		return lineage.PoolOf(s.Archived) == pool.String() && s.Archived.Annotations[api.AnnotationInputDigest] == inputDigest
	})
	switch {
	case err != nil:
		return nil, err
	case stored != nil && !stored.IsIntactOf(inputDigest):
		return nil, &EditedError{objectOfRecord(stored.Archived), fmt.Sprintf("its data does not have the digest %s", inputDigest)}
	case stored != nil:
		return stored, nil
	case recorded.edited:
		return nil, &EditedError{recorded.object(), "its record does not match its digest annotation"}
	}
	return nil, &NotFoundError{
		Object: Object{Kind: recordKind.Kind, Namespace: c.Namespace, Name: lineage.RecordNames(pool, inputDigest)[0]},
		Hint:   "neither the archived records nor the pool's OperatingSystemConfig have the record of this configuration",
	}
}

// recordReader reads archived records.
type recordReader struct{ Clusters }

// Find implements lineage.Reader. For a record that the user must not read, the error is a
// *NotFoundError.
func (r recordReader) Find(ctx context.Context, ref lineage.Reference, obj lineage.Object) (bool, error) {
	state, note, err := getWithState(ctx, r.Management, ref.NamespacedName, obj)
	if state == Unreadable {
		return false, &NotFoundError{Object: objectOf(recordKind.Kind, ref), Hint: note}
	}
	return state == Found, err
}

func objectOfRecord(obj *appsv1.ControllerRevision) Object {
	return Object{Kind: recordKind.Kind, Namespace: obj.Namespace, Name: obj.Name, UID: obj.UID}
}

// ReadUnverifiedSettings reads the settings of a digest, for render.Record.Input, which compares the digest.
func (c Clusters) ReadUnverifiedSettings(ctx context.Context, digest string) ([]byte, error) {
	var cm corev1.ConfigMap
	at := Object{Kind: "ConfigMap", Namespace: c.Namespace, Name: lineage.SettingsName(digest)}
	if err := getExisting(ctx, c.Management, at, &cm); err != nil {
		return nil, err
	}
	return []byte(cm.Data[lineage.SettingsKey]), nil
}

// ReadProfileAndDigest reads the OperatingSystemProfile that a record names, and returns the current digest of its
// spec.
func (c Clusters) ReadProfileAndDigest(ctx context.Context, object string) (*osm.OperatingSystemProfile, string, error) {
	var osp osm.OperatingSystemProfile
	key := lineage.ProfileKey(c.Namespace, object)
	at := Object{Kind: "OperatingSystemProfile", Namespace: key.Namespace, Name: key.Name}
	if err := getExisting(ctx, c.Management, at, &osp); err != nil {
		return nil, "", err
	}
	return &osp, profile.Digest(osp.Spec), nil
}

// PlaceholderInput returns the input of a recorded generation, with placeholders in place of credentials
// and tokens, so that its rendering contains no secret. The profile and the settings must be those
// of the record.
func PlaceholderInput(rec render.Record, spec osm.OperatingSystemProfileSpec, settings []byte) (render.Input, error) {
	in, err := rec.RebuildInput(spec, profile.Digest(spec), settings)
	if err != nil {
		return render.Input{}, err
	}
	// An empty field stays empty, and every generation had tokens.
	in.Cluster.APIServerToken, in.Cluster.BootstrapToken = "-", "-"
	in, _ = in.ReplaceSecrets()
	return in, nil
}

// ReadGenerationInput reads all that the placeholder rendering of a recorded generation needs.
func (c Clusters) ReadGenerationInput(ctx context.Context, pool types.NamespacedName, inputDigest string) (render.Input, error) {
	stored, err := c.ReadRecord(ctx, pool, inputDigest)
	if err != nil {
		return render.Input{}, err
	}
	osp, _, err := c.ReadProfileAndDigest(ctx, stored.Record.Object)
	if err != nil {
		return render.Input{}, err
	}
	settings, err := c.ReadUnverifiedSettings(ctx, stored.Record.SettingsDigest)
	if err != nil {
		return render.Input{}, err
	}
	return PlaceholderInput(stored.Record, osp.Spec, settings)
}

// recordedState is what a pool had and has.
type recordedState struct {
	pool   types.NamespacedName
	config *osm.OperatingSystemConfig // with the pool's name, of any origin; nil for none
	state  State                      // of config: Found, Missing, Foreign, Edited, Unreadable
	note   string
	rec    *render.Record // of config; nil for none
	edited bool           // config has a record that was edited
	lineage.Timeline
	// readError is the reason why archived records cannot be read, or "".
	readError string
}

func (p *recordedState) object() Object {
	return Object{Kind: "OperatingSystemConfig", Namespace: p.config.Namespace, Name: p.config.Name, UID: p.config.UID}
}

// recordedStateOf reads the configuration of a pool, and its archived records without their data.
func (c Clusters) recordedStateOf(ctx context.Context, pool types.NamespacedName) (*recordedState, error) {
	p := &recordedState{pool: pool}
	var osc osm.OperatingSystemConfig
	key := types.NamespacedName{Namespace: c.Namespace, Name: lineage.NamesOf(pool).Config}
	var err error
	if p.state, p.note, err = getWithState(ctx, c.Management, key, &osc); err != nil {
		return nil, err
	}
	if p.state == Found {
		p.config = &osc
		p.verifyConfigRecord()
	}
	var archived []metav1.PartialObjectMetadata
	state, note, err := List(ctx, c.Management, kubeclient.MetadataList(recordKind), func(page *metav1.PartialObjectMetadataList) error {
		for _, obj := range page.Items {
			if lineage.PoolOf(&obj) == pool.String() {
				archived = append(archived, obj)
			}
		}
		return nil
	}, client.InNamespace(c.Namespace), client.MatchingLabels{
		api.LabelManagedBy: api.FieldManager, api.LabelPool: api.PoolLabel(pool.Namespace, pool.Name),
	})
	if err != nil {
		return nil, err
	}
	if state != Found {
		p.readError = "the archived records of the pool: " + note
	}
	var current client.Object
	if p.rec != nil {
		current = p.config
	}
	p.Timeline = lineage.NewTimeline(current, archived)
	return p, nil
}

// verifyConfigRecord checks that a configuration has an unedited record of this pool, and sets the
// state otherwise.
func (p *recordedState) verifyConfigRecord() {
	a := p.config.Annotations
	switch {
	case a[api.AnnotationRecord] == "":
		p.state, p.note = Foreign, "it has no record: operating-system-manager or a user created it"
	case a[api.AnnotationPool] != p.pool.String():
		p.state = Foreign
		p.note = fmt.Sprintf("it belongs to MachineDeployment %s, whose name and namespace make the same object names", a[api.AnnotationPool])
	default:
		rec, ok := lineage.IntactRecordOf(p.config)
		if !ok {
			p.state = Edited
			p.note = "its record does not match its digest annotation"
			p.edited = true
			return
		}
		p.rec = &rec
	}
}
