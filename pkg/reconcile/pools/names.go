package pools

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// The stages in names of Secrets (contract: section 8.1).
const (
	stageBootstrap = "bootstrap"
	stageProvision = "provisioning"
)

// What other names of Secrets begin or end with (contract: sections 8.1 and 8.6).
const (
	kubeconfigSuffix = "-kubelet-bootstrap-config"
	inputsSuffix     = "-inputs"
	edgePrefix       = "edge-provider-script-"
)

// maxLabelValue is the length at which the contract's key falls back to the bare name.
const maxLabelValue = 63

// Names are the names of what is made for a pool: the OperatingSystemConfig in the
// controller's namespace, the Secrets in cloud-init-settings.
type Names struct{ Config, Bootstrap, Provisioning, Inputs string }

// NamesOf are the names for a pool. Two pools may have the same: the annotation
// api.AnnotationPool says whose an object is.
func NamesOf(pool types.NamespacedName) Names {
	md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: pool.Name}}
	return Names{Config: oscName(md), Bootstrap: BootstrapName(md), Provisioning: userDataName(md, stageProvision), Inputs: inputsName(md)}
}

// RecordNames are the names that the ControllerRevision with the archived record of a
// pool's generation may have.
func RecordNames(pool types.NamespacedName, inputDigest string) []string {
	return recordNames(pool.Namespace, pool.Name, inputDigest)
}

// SettingsName is the ConfigMap that keeps the settings of a digest, under SettingsKey.
func SettingsName(digest string) string { return settingsName(digest) }

// SettingsKey is the data key of what SettingsName names.
const SettingsKey = settingsKey

func oscName(md *cluster.MachineDeployment) string { return md.Name + "-" + md.Namespace + "-config" }

// BootstrapName is the Secret with the document that a pool's machines boot from.
func BootstrapName(md *cluster.MachineDeployment) string { return userDataName(md, stageBootstrap) }

func userDataName(md *cluster.MachineDeployment, stage string) string {
	return md.Name + "-" + md.Namespace + "-" + stage + "-config"
}

// inputsName is the Secret with the credentials of a generation that are no tokens.
func inputsName(md *cluster.MachineDeployment) string {
	return md.Name + "-" + md.Namespace + inputsSuffix
}

// kubeconfigName is the Secret with the kubelet's bootstrap kubeconfig.
func kubeconfigName(md *cluster.MachineDeployment) string {
	return contractKey(md) + kubeconfigSuffix
}

// contractKey is "<namespace>-<name>", or the bare name where that has 63
// characters or more (contract: section 8.1).
func contractKey(md *cluster.MachineDeployment) string {
	if key := md.Namespace + "-" + md.Name; len(key) < maxLabelValue {
		return key
	}
	return md.Name
}

// TokenLabel is the value of api.LabelTokenPool on the bootstrap tokens of a pool.
func TokenLabel(md *cluster.MachineDeployment) string { return tokenLabel(md) }

// tokenLabel is the contract's key as a label value. A name that is too long for
// one keeps its beginning and gets a digest.
func tokenLabel(md *cluster.MachineDeployment) string {
	key := contractKey(md)
	if len(key) <= maxLabelValue {
		return key
	}
	sum := sha256.Sum256([]byte(poolKey(md)))
	return key[:maxLabelValue-13] + "-" + hex.EncodeToString(sum[:6])
}

// Prefixes of derivedNames: objects of one kind and namespace, or labels.
const (
	derivedConfig = "OperatingSystemConfig "
	derivedSecret = "Secret "
	derivedToken  = "bootstrap token label "
)

// derivedNames are the names of all that is made for a pool, each with its kind: objects of
// equal derived names are the same object. Two kinds of names are left out. Archived
// records: two pools that share one share the configuration. And those of accessName, which
// have a digest of the pool.
func derivedNames(md *cluster.MachineDeployment) []string {
	out := []string{derivedConfig + oscName(md), derivedToken + tokenLabel(md)}
	for _, name := range secretNames(md) {
		out = append(out, derivedSecret+name)
	}
	return out
}

// secretNames are those of a pool's Secrets in cloud-init-settings, whether it needs them
// or not.
func secretNames(md *cluster.MachineDeployment) []string {
	return []string{kubeconfigName(md), userDataName(md, stageProvision), BootstrapName(md), inputsName(md), edgeName(md)}
}

// stems are what derived names are made of, by adding text before or behind.
func stems(md *cluster.MachineDeployment) []string {
	out := []string{md.Name + "-" + md.Namespace, contractKey(md), tokenLabel(md)}
	slices.Sort(out)
	return slices.Compact(out)
}

// rivalStems are the stems of every pool that has a derived name in common with this one.
// Others may have them too.
func rivalStems(md *cluster.MachineDeployment) []string {
	out := stems(md)
	for _, name := range secretNames(md) {
		for _, suffix := range []string{kubeconfigSuffix, "-" + stageProvision + "-config", "-" + stageBootstrap + "-config", inputsSuffix} {
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

// recordNames are the names that the archived record of a generation may have: the
// first that is free, or its own. One with more of the digest comes second, for a name
// that something else has; it is no longer than the contract's longest.
func recordNames(namespace, name, inputDigest string) []string {
	const most = len("provisioning-config")
	hexDigits := inputDigest[strings.LastIndex(inputDigest, ":")+1:]
	return []string{
		name + "-" + namespace + "-" + render.ShortDigest(inputDigest),
		name + "-" + namespace + "-" + hexDigits[:min(most, len(hexDigits))],
	}
}

// recordLabel names a pool in a label.
func recordLabel(pool string) string {
	namespace, name, _ := cutKey(pool)
	return api.PoolLabel(namespace, name)
}

// cutKey takes the "namespace/name" of poolKey apart.
func cutKey(key string) (namespace, name string, ok bool) {
	namespace, name, ok = strings.Cut(key, "/")
	return namespace, name, ok && namespace != "" && name != ""
}
