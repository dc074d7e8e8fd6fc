package lineage

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// maxLabelValue is the length at which a key falls back to the bare name.
const maxLabelValue = 63

const (
	// SettingsPrefix starts the names of the ConfigMaps that SettingsName returns.
	SettingsPrefix = "osm-gitops-settings-"
	// SettingsKey is the data key of the settings in such a ConfigMap.
	SettingsKey = "settings.json"
)

// Names are the names of the objects of a pool: the OperatingSystemConfig in the
// controller's namespace, the Secrets in cloud-init-settings.
type Names struct{ Config, Bootstrap, Provisioning, Inputs, Kubeconfig, EdgeScript string }

// Prefixes and suffixes of the names.
const (
	configSuffix       = "-config"
	bootstrapSuffix    = "-bootstrap-config"
	provisioningSuffix = "-provisioning-config"
	inputsSuffix       = "-inputs"
	kubeconfigSuffix   = "-kubelet-bootstrap-config"
	edgePrefix         = "edge-provider-script-"
)

// NamesOf returns the names for a pool. Two pools can have the same names: the annotation
// api.AnnotationPool of an object names its pool.
func NamesOf(pool types.NamespacedName) Names {
	stem := pool.Name + "-" + pool.Namespace
	return Names{
		Config: stem + configSuffix, Bootstrap: stem + bootstrapSuffix, Provisioning: stem + provisioningSuffix,
		Inputs: stem + inputsSuffix, Kubeconfig: NamespacedKeyOrName(pool) + kubeconfigSuffix, EdgeScript: edgePrefix + stem,
	}
}

// AccessName is the name of a pool's BootReport, and of the ServiceAccount, Role and RoleBinding of its
// node token, in cloud-init-settings: at most 62 characters, with a digest, so that no two pools have
// the same.
func AccessName(pool types.NamespacedName) string {
	const readable = 40
	name := strings.TrimRight(pool.Name[:min(len(pool.Name), readable)], "-.")
	sum := sha256.Sum256([]byte(pool.String()))
	return "node-" + name + "-" + hex.EncodeToString(sum[:8])
}

// AccessMeta returns the metadata of all objects with the AccessName of a pool. Annotations name the pool.
func AccessMeta(md *cluster.MachineDeployment) metav1.ObjectMeta {
	pool := types.NamespacedName{Namespace: md.Namespace, Name: md.Name}
	return metav1.ObjectMeta{
		Namespace: api.NamespaceCloudInitSettings, Name: AccessName(pool),
		Labels:      map[string]string{api.LabelManagedBy: api.FieldManager},
		Annotations: map[string]string{api.AnnotationPool: pool.String(), api.AnnotationPoolUID: string(md.UID)},
	}
}

// RecordNames are the possible names of the archived record of a pool's generation: the first one
// that is free, or that is its own. The second has more of the digest, in case another object has
// the first name; it is not longer than the longest of Names.
func RecordNames(pool types.NamespacedName, inputDigest string) []string {
	const most = len("provisioning-config")
	hexDigits := inputDigest[strings.LastIndex(inputDigest, ":")+1:]
	stem := pool.Name + "-" + pool.Namespace + "-"
	return []string{stem + render.ShortDigest(inputDigest), stem + hexDigits[:min(most, len(hexDigits))]}
}

// SettingsName is the ConfigMap that stores the settings of a digest, under SettingsKey.
func SettingsName(digest string) string { return SettingsPrefix + render.ShortDigest(digest) }

// NamespacedKeyOrName is "<namespace>-<name>", or the bare name if that has 63 characters or more.
func NamespacedKeyOrName(pool types.NamespacedName) string {
	if key := pool.Namespace + "-" + pool.Name; len(key) < maxLabelValue {
		return key
	}
	return pool.Name
}

// TokenLabel is the value of api.LabelTokenPool on the bootstrap tokens of a pool: its
// NamespacedKeyOrName. A name that is too long for a label is shortened and gets a digest.
func TokenLabel(pool types.NamespacedName) string {
	key := NamespacedKeyOrName(pool)
	if len(key) <= maxLabelValue {
		return key
	}
	sum := sha256.Sum256([]byte(pool.String()))
	return key[:maxLabelValue-13] + "-" + hex.EncodeToString(sum[:6])
}
