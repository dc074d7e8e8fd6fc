package lineage

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// IntactRecordOf reads the record of an OperatingSystemConfig. It returns false if there is
// none, or if a user edited it.
func IntactRecordOf(osc metav1.Object) (render.Record, bool) {
	return DecodeIntactRecord([]byte(osc.GetAnnotations()[api.AnnotationRecord]))
}

// DecodeIntactRecord reads a record, as render.MarshalRecord writes it. It returns false if its
// digest is not that of its content.
func DecodeIntactRecord(text []byte) (render.Record, bool) {
	rec, err := ParseUnverifiedRecord(text)
	if err != nil || !Intact(rec) {
		return render.Record{}, false
	}
	return rec, true
}

// ParseUnverifiedRecord reads a record that a user can have edited.
func ParseUnverifiedRecord(text []byte) (render.Record, error) {
	var rec render.Record
	if err := json.Unmarshal(text, &rec); err != nil {
		return render.Record{}, fmt.Errorf("decoding a record: %w", err)
	}
	return rec, nil
}

// ParseRecordAnnotation is ParseUnverifiedRecord for the annotation of an OperatingSystemConfig.
func ParseRecordAnnotation(osc metav1.Object) (render.Record, error) {
	text := osc.GetAnnotations()[api.AnnotationRecord]
	if text == "" {
		return render.Record{}, errors.New("it has no record")
	}
	return ParseUnverifiedRecord([]byte(text))
}

// Intact reports whether the digest of a record is that of its content.
func Intact(rec render.Record) bool {
	return rec.Object != "" && rec.InputDigest() == rec.Digests.Input
}

// ProfileOrObjectName returns the profile of a record, or the name of an object made by hand.
func ProfileOrObjectName(rec render.Record) string { return cmp.Or(rec.Profile, rec.Object) }

// ProfileKey reads the name of a profile's object in a record: "name" for one in the namespace
// of the controller, or "namespace/name".
func ProfileKey(controllerNamespace, object string) types.NamespacedName {
	if namespace, name, ok := strings.Cut(object, "/"); ok {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Namespace: controllerNamespace, Name: object}
}

// EncodeIntervals writes the annotation of an archived record.
func EncodeIntervals(intervals []api.Interval) (string, error) {
	text, err := json.Marshal(intervals)
	if err != nil {
		return "", fmt.Errorf("encoding intervals: %w", err)
	}
	return string(text), nil
}

// DecodeIntervals reads the intervals of an archived record from its annotations. It returns nil if
// they were edited and are invalid.
func DecodeIntervals(annotations map[string]string) []api.Interval {
	var out []api.Interval
	if json.Unmarshal([]byte(annotations[api.AnnotationIntervals]), &out) != nil {
		return nil
	}
	return out
}
