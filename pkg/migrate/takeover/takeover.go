package takeover

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/render/equivalence"
)

// BootTime is how long a machine without a node counts as booting, and how long a pool
// waits for booting machines in total, however many follow each other.
const BootTime = 30 * time.Minute

// IsCreatedByOSM reports whether operating-system-manager created an object for a pool: it has
// the three annotations and no owner.
func IsCreatedByOSM(obj metav1.Object) bool {
	a := obj.GetAnnotations()
	for _, key := range []string{api.AnnotationRevisionFor, api.AnnotationMDAnnotationsHash, api.AnnotationOSPVersion} {
		if _, ok := a[key]; !ok {
			return false
		}
	}
	return a[api.AnnotationPool] == "" && !strings.HasPrefix(a[api.AnnotationOSPVersion], api.OSPVersionPrefix)
}

// IsCreatedByOSMFor reports whether operating-system-manager created an object for a
// MachineDeployment, by the hash of its annotations. This distinguishes two pools whose objects
// have the same name.
func IsCreatedByOSMFor(obj, md metav1.Object) bool {
	return IsCreatedByOSM(obj) && obj.GetAnnotations()[api.AnnotationMDAnnotationsHash] == AnnotationsHash(md.GetAnnotations())
}

// AnnotationsHash is the hash that operating-system-manager computes of a MachineDeployment's
// annotations: over the JSON of the whole map, HTML escaped.
func AnnotationsHash(annotations map[string]string) string {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(annotations); err != nil {
		return "" // a map of strings can always be encoded
	}
	sum := sha256.Sum256(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return hex.EncodeToString(sum[:])
}

// Immutable reports whether a Secret cannot be updated. The reference creates immutable
// documents; we never do.
func Immutable(s *corev1.Secret) bool { return s != nil && s.Immutable != nil && *s.Immutable }

// HasOSMDocuments reports whether operating-system-manager created one of a pool's user-data
// Secrets. Its documents contain the shared token. A document with the token of its pool is ours,
// even if its Secret is immutable.
func HasOSMDocuments(userData ...*corev1.Secret) bool {
	return slices.ContainsFunc(userData, func(s *corev1.Secret) bool {
		return Immutable(s) && s.Annotations[api.AnnotationCredentialsExpireAt] == ""
	})
}

// Compare lists the differences in meaning between the documents of two user-data Secrets,
// without their content. An unreadable document differs.
func Compare(have, want *corev1.Secret) []string {
	differences, err := equivalence.Compare(have.Data[api.UserDataKey], want.Data[api.UserDataKey])
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, d := range differences {
		out = append(out, d.What)
	}
	return out
}

// WaitingSince returns when the replacement of a pool's Secrets began to wait for machines:
// now, unless one of them has an earlier time. The time is stored in the Secrets, since
// other machines can replace those that it waits for, and the controller can restart.
func WaitingSince(now time.Time, userData ...*corev1.Secret) time.Time {
	since := now
	for _, s := range userData {
		if !Immutable(s) {
			continue
		}
		waitingSince, err := time.Parse(time.RFC3339, s.Annotations[api.AnnotationWaitingSince])
		if err == nil && waitingSince.Before(since) {
			since = waitingSince
		}
	}
	return since
}

// MayBoot reports whether a machine can become a node.
func MayBoot(m *cluster.Machine) bool {
	return m.Status.NodeRef == nil && m.DeletionTimestamp.IsZero()
}

// IsBooting reports whether a machine can be booting now, and until when.
func IsBooting(m *cluster.Machine, now time.Time) (until time.Time, booting bool) {
	until = m.CreationTimestamp.Add(BootTime)
	return until, MayBoot(m) && now.Before(until)
}

// SummarizeDifferences describes in an event what happened to the reference's documents, given their
// differences.
func SummarizeDifferences(differs []string) string {
	if len(differs) == 0 {
		return "; the documents of the previous controller are equivalent and are retained"
	}
	const most = 5
	return "; it differs from that of the previous controller in " + phrase.First(differs, most)
}
