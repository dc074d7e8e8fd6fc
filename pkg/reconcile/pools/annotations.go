package pools

import (
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// poolAnnotations name the pool of an object.
func poolAnnotations(md *cluster.MachineDeployment) map[string]string {
	return map[string]string{api.AnnotationPool: poolKey(md), api.AnnotationPoolUID: string(md.UID)}
}

// userDataAnnotations are those of the two user-data Secrets of a generation. userDataSecret adds
// the digest of the document, bootstrapSecret its size for the provider. Secrets whose document
// remains are patched, see metadataPatch.
func (g plannedGeneration) userDataAnnotations(md *cluster.MachineDeployment) map[string]string {
	from := g.in.Profile.Provenance
	out := poolAnnotations(md)
	maps.Copy(out, map[string]string{
		api.AnnotationRevisionFor:       g.revision,
		api.AnnotationMDAnnotationsHash: takeover.AnnotationsHash(md.Annotations),
		api.AnnotationOSPVersion:        from.Version,
		api.AnnotationProfile:           from.Profile,
		api.AnnotationVersion:           from.Version,
		api.AnnotationInputDigest:       g.input,
		api.AnnotationCredentialsDigest: g.credentialsDigest,
		api.AnnotationTokensDigest:      g.tokensDigest,
	})
	for k, v := range map[string]string{
		api.AnnotationRepository: from.Repository, api.AnnotationPath: from.Path,
		api.AnnotationCommit: from.Commit, api.AnnotationChange: from.Change,
		api.AnnotationSelectedBy: g.in.Profile.SelectedBy,
	} {
		if v != "" {
			out[k] = v
		}
	}
	g.nodeToken.SetExpiryAnnotations(out)
	return out
}

// withCurrentToken is what the annotations of a document should be, given that the
// token in it may stay.
func (g plannedGeneration) withCurrentToken(seen *observed, have *corev1.Secret, want map[string]string) map[string]string {
	t, ok := seen.currentNodeToken(have)
	if !ok {
		return want
	}
	out := maps.Clone(want)
	out[api.AnnotationTokensDigest] = g.digestWith(seen.key, t)
	t.SetExpiryAnnotations(out)
	return out
}

// metadataPatch updates the revision if nothing more changed, and restores manually edited
// annotations. The hash of the pool's annotations and the commit that selected the version are
// written with the next content: machine-controller reads neither.
func metadataPatch(have, want map[string]string) map[string]string {
	patch := map[string]string{}
	for k, v := range want {
		if have[k] != v && k != api.AnnotationMDAnnotationsHash && k != api.AnnotationSelectedBy {
			patch[k] = v
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// userDataSecret returns a user-data Secret with a document.
func userDataSecret(name string, have *corev1.Secret, document []byte, annotations map[string]string) *corev1.Secret {
	annotations = maps.Clone(annotations)
	annotations[api.AnnotationDataDigest] = lineage.DataDigest(document)
	return nextSecret(name, have, annotations, map[string][]byte{api.UserDataKey: document})
}

// bootstrapSecret returns the bootstrap Secret, which also says how much of its provider's limit it
// needs.
func bootstrapSecret(have *corev1.Secret, pool render.Pool, name string, document []byte, annotations map[string]string) *corev1.Secret {
	secret := userDataSecret(name, have, document, annotations)
	secret.Annotations[api.AnnotationUserDataBytes] = strconv.Itoa(pool.UserDataSize(document))
	return secret
}

// annotationsWithRenewedToken are those of a document that cannot be rendered again, and in which
// only the token was replaced. They have no tokens digest, so that the document is rendered as soon
// as that is possible.
func annotationsWithRenewedToken(have map[string]string, renewed token.Node) map[string]string {
	out := maps.Clone(have)
	for _, key := range []string{api.AnnotationTokensDigest, api.AnnotationCredentialsExpireAt, api.AnnotationCredentialsRenewAt} {
		delete(out, key)
	}
	renewed.SetExpiryAnnotations(out)
	return out
}

// waitAnnotations say since when immutable documents wait for booting machines before they are
// replaced; writeUserData removes them.
func waitAnnotations(seen *observed) map[string]string {
	return map[string]string{api.AnnotationWaitingSince: lineage.FormatTime(takeover.WaitingSince(seen.now, seen.objects.provisioning, seen.objects.bootstrap))}
}

// nextSecret returns a new Secret, or the next state of the existing one: metadata that other clients
// wrote is preserved, ours is replaced.
func nextSecret(name string, have *corev1.Secret, annotations map[string]string, data map[string][]byte) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: api.NamespaceCloudInitSettings,
			Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Type: corev1.SecretTypeOpaque,
		Data: data,
	}
	if have != nil {
		secret.ResourceVersion = have.ResourceVersion
		secret.UID = have.UID
		secret.Type = have.Type
		secret.Finalizers = have.Finalizers
		maps.Copy(secret.Labels, have.Labels)
		maps.Copy(secret.Annotations, have.Annotations)
		maps.DeleteFunc(secret.Annotations, func(k, _ string) bool { return strings.HasPrefix(k, api.GroupVersion.Group+"/") })
	}
	secret.Labels[api.LabelManagedBy] = api.FieldManager
	maps.Copy(secret.Annotations, annotations)
	return secret
}

// configAnnotations are those of the configuration, its record aside.
func configAnnotations(ofSecrets map[string]string) map[string]string {
	out := maps.Clone(ofSecrets)
	delete(out, api.AnnotationCredentialsDigest)
	delete(out, api.AnnotationTokensDigest)
	delete(out, api.AnnotationCredentialsExpireAt)
	delete(out, api.AnnotationCredentialsRenewAt)
	out[api.AnnotationOSPVersion] = api.OSPVersionPrefix + out[api.AnnotationOSPVersion]
	return out
}

func newConfig(md *cluster.MachineDeployment, namespace string, out *render.Output, annotations map[string]string, record []byte) *osm.OperatingSystemConfig {
	annotations = configAnnotations(annotations)
	annotations[api.AnnotationRecord] = string(record)
	return &osm.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{
			Name: namesOf(md).Config, Namespace: namespace,
			Labels:      map[string]string{api.LabelManagedBy: api.FieldManager},
			Annotations: annotations,
		},
		Spec: out.OSC,
	}
}

// rejectionAnnotations are the annotations by which the configuration of a pool says that a newer
// one is rejected; none if that is not so.
func rejectionAnnotations(seen *observed, planned plan) map[string]string {
	if planned.rejection == nil {
		return nil
	}
	out := map[string]string{api.AnnotationRefused: rejectedMessage(planned), api.AnnotationRefusedSince: lineage.FormatTime(seen.now)}
	version := rejectedVersion(planned.rejection)
	if version != "" {
		out[api.AnnotationRefusedVersion] = version
	}
	if seen.objects.osc == nil {
		return out
	}
	// The first time counts while the version is the same. A time in the future cannot be right.
	have := seen.objects.osc.Annotations
	if since := lineage.AnnotatedTime(have, api.AnnotationRefusedSince); have[api.AnnotationRefusedVersion] == version && !since.IsZero() && !since.After(seen.now) {
		out[api.AnnotationRefusedSince] = have[api.AnnotationRefusedSince]
	}
	return out
}

// planRevisionAnnotations lets documents with unchanged content follow the pool's revision.
func planRevisionAnnotations(seen *observed, planned *plan) {
	revision, have := revisionOf(seen), seen.objects
	if have.osc != nil && have.osc.Annotations[api.AnnotationRevisionFor] != revision {
		planned.oscMetadata = map[string]string{api.AnnotationRevisionFor: revision}
	}
	for _, document := range []struct {
		have *corev1.Secret
		into *secretPlan
	}{{have.provisioning, &planned.provisioning}, {have.bootstrap, &planned.bootstrap}} {
		switch {
		case document.into.write != nil: // with another token
			document.into.write.Annotations[api.AnnotationRevisionFor] = revision
		case document.have != nil && document.have.Annotations[api.AnnotationRevisionFor] != revision:
			document.into.patch = map[string]string{api.AnnotationRevisionFor: revision}
		}
	}
}
