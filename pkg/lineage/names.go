package lineage

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// maxLabelValue is the length at which the contract's key falls back to the bare name.
const maxLabelValue = 63

const (
	// SettingsPrefix starts the names of the ConfigMaps that SettingsName returns.
	SettingsPrefix = "osm-gitops-settings-"
	// SettingsKey is the data key of the settings in such a ConfigMap.
	SettingsKey = "settings.json"
)

// Names are the names of the objects of a pool: the OperatingSystemConfig in the
// controller's namespace, the Secrets in cloud-init-settings (contract: sections 8.1 and
// 8.6).
type Names struct{ Config, Bootstrap, Provisioning, Inputs, Kubeconfig, EdgeScript string }

// What the names begin or end with.
const (
	configSuffix       = "-config"
	bootstrapSuffix    = "-bootstrap-config"
	provisioningSuffix = "-provisioning-config"
	inputsSuffix       = "-inputs"
	kubeconfigSuffix   = "-kubelet-bootstrap-config"
	edgePrefix         = "edge-provider-script-"
)

// NamesOf returns the names for a pool. Two pools may have the same: the annotation
// api.AnnotationPool says whose an object is.
func NamesOf(pool types.NamespacedName) Names {
	stem := pool.Name + "-" + pool.Namespace
	return Names{
		Config: stem + configSuffix, Bootstrap: stem + bootstrapSuffix, Provisioning: stem + provisioningSuffix,
		Inputs: stem + inputsSuffix, Kubeconfig: ContractKey(pool) + kubeconfigSuffix, EdgeScript: edgePrefix + stem,
	}
}

// RecordNames are the names that the archived record of a pool's generation may have: the
// first that is free, or its own. The second has more of the digest, for a name that
// another object has; it is no longer than the contract's longest.
func RecordNames(pool types.NamespacedName, inputDigest string) []string {
	const most = len("provisioning-config")
	hexDigits := inputDigest[strings.LastIndex(inputDigest, ":")+1:]
	stem := pool.Name + "-" + pool.Namespace + "-"
	return []string{stem + render.ShortDigest(inputDigest), stem + hexDigits[:min(most, len(hexDigits))]}
}

// SettingsName is the ConfigMap that keeps the settings of a digest, under SettingsKey.
func SettingsName(digest string) string { return SettingsPrefix + render.ShortDigest(digest) }

// ContractKey is "<namespace>-<name>", or the bare name if that has 63 characters or more
// (contract: section 8.1).
func ContractKey(pool types.NamespacedName) string {
	if key := pool.Namespace + "-" + pool.Name; len(key) < maxLabelValue {
		return key
	}
	return pool.Name
}

// TokenLabel is the value of api.LabelTokenPool on the bootstrap tokens of a pool: the
// contract's key. A name that is too long for a label keeps its beginning and gets a digest.
func TokenLabel(pool types.NamespacedName) string {
	key := ContractKey(pool)
	if len(key) <= maxLabelValue {
		return key
	}
	sum := sha256.Sum256([]byte(pool.String()))
	return key[:maxLabelValue-13] + "-" + hex.EncodeToString(sum[:6])
}
