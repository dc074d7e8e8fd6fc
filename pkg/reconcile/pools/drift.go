package pools

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// detectDrift lists the parts of a generation that a user changed or deleted, for an event:
// names of objects, keys and annotations, never values. restoresConfig reports that the configuration
// has to be created again with the same content, which is not a rotation.
//
// An interrupted controller leaves objects missing as well, and that cannot be distinguished
// from a deletion.
func detectDrift(seen *observed, target plannedGeneration, planned plan) (what []string, restoresConfig bool) {
	have, uid := seen.objects, string(seen.md.UID)
	made := func(secret *corev1.Secret) bool {
		return secret != nil && secret.Annotations[api.AnnotationInputDigest] == target.input && secret.Annotations[api.AnnotationPoolUID] == uid
	}
	add := func(format string, args ...any) { what = append(what, fmt.Sprintf(format, args...)) }

	rec := recordOf(have.osc)
	switch {
	case have.osc == nil && (made(have.bootstrap) || made(have.provisioning)):
		add("OperatingSystemConfig %s was missing", namesOf(seen.md).Config)
		restoresConfig = true
	case have.osc != nil && have.osc.Annotations[api.AnnotationPoolUID] == uid && mismatchedAnnotation(have.osc, rec) != "":
		add("%s of OperatingSystemConfig %s", mismatchedAnnotation(have.osc, rec), namesOf(seen.md).Config)
		restoresConfig = have.osc.Annotations[api.AnnotationInputDigest] == target.input
	case seen.unserved && rec.Digests.Input != target.input && have.hasDocumentWithInput(target.input):
		add("annotation %s or %s of OperatingSystemConfig %s", api.AnnotationRecord, api.AnnotationInputDigest, namesOf(seen.md).Config)
		restoresConfig = true
	}
	for _, k := range editedKeys(planned.oscMetadata, "") {
		add("annotation %s of OperatingSystemConfig %s", k, namesOf(seen.md).Config)
	}
	for _, key := range slices.Sorted(slices.Values(seen.bootstrapToken.Edited)) {
		add("key %s of Secret %s", key, seen.bootstrapToken.Secret.Name)
	}
	// A pool is new until its last Secret exists.
	settled := rec.Digests.Input == target.input && (have.bootstrap != nil || seen.wasComplete) || restoresConfig
	for _, secret := range []struct {
		name, key string
		have      *corev1.Secret
		patch     map[string]string
	}{
		{namesOf(seen.md).Kubeconfig, api.KubeconfigKey, have.kubeconfig, nil},
		{namesOf(seen.md).EdgeScript, edgeScriptKey, have.edge, nil},
		{namesOf(seen.md).Provisioning, api.UserDataKey, have.provisioning, planned.provisioning.patch},
		{namesOf(seen.md).Bootstrap, api.UserDataKey, have.bootstrap, planned.bootstrap.patch},
	} {
		switch {
		case secret.have == nil && secret.key == edgeScriptKey && !target.in.Pool.HasEdgeScript():
		case secret.have == nil && settled:
			add("Secret %s was missing", secret.name)
		// Without a digest of the content there is nothing to compare with.
		case secret.have == nil || secret.have.Annotations[api.AnnotationDataDigest] == "":
		case isEdited(secret.have, secret.key):
			add("key %s of Secret %s", secret.key, secret.name)
		case len(secret.have.Data) != 1:
			add("keys of Secret %s", secret.name)
		}
		revision := ""
		if have.osc != nil {
			revision = have.osc.Annotations[api.AnnotationRevisionFor]
		}
		for _, k := range editedKeys(secret.patch, revision) {
			add("annotation %s of Secret %s", k, secret.name)
		}
	}
	switch inputs, stored := planned.inputs, have.inputs; {
	case inputs.data == nil || !settled || have.bootstrap == nil || have.bootstrap.Annotations[api.AnnotationCredentialsDigest] != target.credentialsDigest:
		// none, or those of documents to come
	case stored == nil:
		add("Secret %s was missing", namesOf(seen.md).Inputs)
	case digestIn(stored, inputs.key) != lineage.DataDigest(inputs.data):
		add("key %s of Secret %s", inputs.key, stored.Name)
	}
	return what, restoresConfig
}

// editedKeys are the annotations that a patch restores. The revision changes without an edit: it
// was edited only if the configuration has the new value already.
func editedKeys(patch map[string]string, revision string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(patch)) {
		if k != api.AnnotationRevisionFor || revision != "" && revision == patch[k] {
			out = append(out, k)
		}
	}
	return out
}
