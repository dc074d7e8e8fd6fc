package lineage

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// What ObjectNames begin with: a kind of objects of one namespace, or labels.
const (
	ConfigPrefix     = "OperatingSystemConfig "
	SecretPrefix     = "Secret "
	TokenLabelPrefix = "bootstrap token label "
)

// ObjectNames are the names of all that is made for a pool, each with its kind: objects of
// equal names are the same object. Two kinds of names are left out. Archived records: two
// pools that share one share the configuration. And those of the objects that let a pool's
// token read its Secrets, which have a digest of the pool.
func ObjectNames(pool types.NamespacedName) []string {
	out := []string{ConfigPrefix + NamesOf(pool).Config, TokenLabelPrefix + TokenLabel(pool)}
	for _, name := range secretNames(pool) {
		out = append(out, SecretPrefix+name)
	}
	return out
}

// secretNames are those of a pool's Secrets in cloud-init-settings, whether it needs them
// or not.
func secretNames(pool types.NamespacedName) []string {
	n := NamesOf(pool)
	return []string{n.Kubeconfig, n.Provisioning, n.Bootstrap, n.Inputs, n.EdgeScript}
}

// NameStems returns the texts from which ObjectNames are made, by adding a prefix or suffix.
func NameStems(pool types.NamespacedName) []string {
	out := []string{pool.Name + "-" + pool.Namespace, NamespacedKeyOrName(pool), TokenLabel(pool)}
	slices.Sort(out)
	return slices.Compact(out)
}

// StemsOfCollidingPools returns the stems of every pool that has one of ObjectNames in common with
// this pool. Other pools can have them too.
func StemsOfCollidingPools(pool types.NamespacedName) []string {
	out := NameStems(pool)
	for _, name := range secretNames(pool) {
		for _, suffix := range []string{kubeconfigSuffix, provisioningSuffix, bootstrapSuffix, inputsSuffix} {
			if stem, ok := strings.CutSuffix(name, suffix); ok {
				out = append(out, stem)
			}
		}
		if stem, ok := strings.CutPrefix(name, edgePrefix); ok {
			out = append(out, stem)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// PoolOf returns the pool that an object was made for, as "<namespace>/<name>". It is empty
// if the object is not one of ours.
func PoolOf(obj metav1.Object) string { return obj.GetAnnotations()[api.AnnotationPool] }

// ParsePool reads the "<namespace>/<name>" of PoolOf.
func ParsePool(text string) (types.NamespacedName, bool) {
	namespace, name, ok := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok && namespace != "" && name != ""
}

// DataDigest is the digest of a document, "sha256:<64 hex>", as in api.AnnotationDataDigest.
func DataDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
