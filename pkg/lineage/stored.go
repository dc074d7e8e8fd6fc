package lineage

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// StoredRecord is a record and the object that contains it. A user can have edited both.
type StoredRecord struct {
	// Record is zero if the object contains nothing that can be decoded.
	Record render.Record
	// Config is the pool's OperatingSystemConfig if that contains the record; otherwise Archived is
	// the ControllerRevision that does.
	Config   *osm.OperatingSystemConfig
	Archived *appsv1.ControllerRevision
}

// FindArchivedRecord finds the archived record of a pool's generation: the first object with one of
// its RecordNames that isRecord accepts. It returns nil if there is none.
func FindArchivedRecord(ctx context.Context, from Reader, namespace string, pool types.NamespacedName, inputDigest string, isRecord func(*StoredRecord) bool) (*StoredRecord, error) {
	for _, name := range RecordNames(pool, inputDigest) {
		obj := &appsv1.ControllerRevision{}
		found, err := from.Find(ctx, Reference{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}, obj)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		if stored := ArchivedRecord(obj); isRecord(stored) {
			return stored, nil
		}
	}
	return nil, nil
}

// ConfigRecord decodes the record in an OperatingSystemConfig.
func ConfigRecord(osc *osm.OperatingSystemConfig) *StoredRecord {
	rec, _ := ParseRecordAnnotation(osc)
	return &StoredRecord{Record: rec, Config: osc}
}

// ArchivedRecord decodes the record in a ControllerRevision.
func ArchivedRecord(obj *appsv1.ControllerRevision) *StoredRecord {
	rec, _ := ParseUnverifiedRecord(obj.Data.Raw)
	return &StoredRecord{Record: rec, Archived: obj}
}

// Holder returns the object that contains the record.
func (s *StoredRecord) Holder() Object {
	if s.Config != nil {
		return s.Config
	}
	return s.Archived
}

// IsReadable reports whether the object contains a record.
func (s *StoredRecord) IsReadable() bool { return s.Record.Object != "" }

// IsIntact reports whether the record is unedited: its digest matches its content.
func (s *StoredRecord) IsIntact() bool { return Intact(s.Record) }

// IsIntactOf reports whether the record is unedited and has an input digest.
func (s *StoredRecord) IsIntactOf(inputDigest string) bool {
	return s.IsIntact() && s.Record.Digests.Input == inputDigest
}
