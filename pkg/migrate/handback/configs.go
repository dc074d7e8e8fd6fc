package handback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/archive"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// replaceTime bounds the replacement of a configuration, which an interrupt does not cut off.
const replaceTime = time.Minute

// attempts are those to create a configuration, or to write what a deleted policy still
// rejects, in about 50 seconds: in that time an API server restarts.
var attempts = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 10}

// rotation says why OSM creates the objects of a pool again.
type rotation struct{ because string }

func (r *rotation) Error() string { return r.because }

func rotates(format string, args ...any) error { return &rotation{fmt.Sprintf(format, args...)} }

// planConfigs replaces the configurations of pools whose Secrets remain valid, so that OSM replaces
// nothing. It returns the pools whose objects remain, and warns of the others.
func (h *Cluster) planConfigs(ctx context.Context, p *Plan, pools []cluster.MachineDeployment, served map[string]bool, profiles futureProfiles) (map[string]bool, error) {
	remain := map[string]bool{}
	for _, md := range pools {
		key := client.ObjectKeyFromObject(&md)
		if !served[key.String()] || !md.DeletionTimestamp.IsZero() {
			continue
		}
		osp, err := h.profileUnderOSM(ctx, &md, profiles)
		if err != nil {
			return nil, err
		}
		config := types.NamespacedName{Namespace: h.Namespace, Name: lineage.NamesOf(key).Config}
		_, next, err := h.nextConfig(ctx, &md, osp)
		var why *rotation
		switch {
		case errors.As(err, &why):
			p.warn("operating-system-manager creates the objects of MachineDeployment %s again: %s", key, why)
			continue
		case err != nil:
			return nil, fmt.Errorf("MachineDeployment %s: %w", key, err)
		}
		remain[key.String()] = true
		if next != nil {
			p.step(func(ctx context.Context) error { return h.replaceConfig(ctx, key, osp) },
				"replace OperatingSystemConfig %s by one of operating-system-manager", config)
			if next.Spec.CloudProvider.Name == osm.CloudProviderEdge {
				p.warn("operating-system-manager cannot replace Secret %s/%s: delete it when MachineDeployment %s or its profile changes",
					api.NamespaceCloudInitSettings, lineage.NamesOf(key).EdgeScript, key)
			}
		}
	}
	return remain, nil
}

// profileUnderOSM returns the content that OSM finds under the name of a pool's profile, nil if it is
// not known.
func (h *Cluster) profileUnderOSM(ctx context.Context, md *cluster.MachineDeployment, profiles futureProfiles) (*osm.OperatingSystemProfileSpec, error) {
	key := types.NamespacedName{Namespace: cmp.Or(md.Annotations[api.AnnotationOSPNamespace], h.Namespace), Name: md.Annotations[api.AnnotationOSP]}
	if spec, planned := profiles[key.Name]; planned && key.Namespace == h.Namespace {
		return spec, nil
	}
	var osp osm.OperatingSystemProfile
	found, err := kubeclient.Find(ctx, h.Management, key, &osp)
	if err != nil || !found {
		return nil, err
	}
	return &osp.Spec, nil
}

// nextConfig returns the configuration of a pool and the one that OSM would have created in its place,
// which has the credentials. next is nil if the configuration is already that of OSM, have is nil
// if the replacement was interrupted. A *rotation says why OSM will replace it anyway.
func (h *Cluster) nextConfig(ctx context.Context, md *cluster.MachineDeployment, osp *osm.OperatingSystemProfileSpec) (have, next *osm.OperatingSystemConfig, err error) {
	key := client.ObjectKeyFromObject(md)
	names := lineage.NamesOf(key)
	have = &osm.OperatingSystemConfig{}
	found, err := kubeclient.Find(ctx, h.Management, types.NamespacedName{Namespace: h.Namespace, Name: names.Config}, have)
	switch {
	case err != nil:
		return nil, nil, err
	case !found:
		have = nil
	case lineage.PoolOf(have) == "":
		return have, nil, nil
	}
	if osp == nil {
		return nil, nil, rotates("the version of its profile %q is not known", md.Annotations[api.AnnotationOSP])
	}
	secrets, err := h.readSecrets(ctx, md)
	if err != nil {
		return nil, nil, err
	}
	rec, err := h.recordOf(ctx, key, have, secrets.provisioning)
	if err != nil {
		return nil, nil, err
	}
	if have != nil && have.Annotations[api.AnnotationRefused] != "" || !lineage.Intact(rec) {
		return nil, nil, rotates("it does not have what it requests")
	}
	for _, s := range []*corev1.Secret{secrets.provisioning, secrets.bootstrap} {
		if s.Annotations[api.AnnotationInputDigest] != rec.Digests.Input || s.Annotations[api.AnnotationRevisionFor] != md.Annotations[api.AnnotationMDRevision] {
			return nil, nil, rotates("Secret %s is not of its present configuration and revision", s.Name)
		}
	}
	in, err := h.restoreInput(ctx, md, rec, secrets)
	if err != nil {
		return nil, nil, err
	}
	if !equality.Semantic.DeepEqual(in.Profile.Spec, *osp) {
		return nil, nil, rotates("it has version %s of its profile, and operating-system-manager will use the version %s, whose content is different", rec.Version, osp.Version)
	}
	spec, err := renderAlike(in, secrets)
	if err != nil {
		return nil, nil, err
	}
	return have, &osm.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: names.Config, Annotations: map[string]string{ // takeover.IsCreatedByOSM needs all three
			api.AnnotationRevisionFor:       md.Annotations[api.AnnotationMDRevision],
			api.AnnotationMDAnnotationsHash: takeover.AnnotationsHash(md.Annotations),
			api.AnnotationOSPVersion:        osp.Version,
		}},
		Spec: spec,
	}, nil
}

// poolSecrets are the Secrets of a pool that OSM leaves as they are.
type poolSecrets struct{ provisioning, bootstrap, kubeconfig *corev1.Secret }

// readSecrets reads the Secrets of a pool. A missing one, or one with a token that ends with its
// ServiceAccount, is a *rotation.
func (h *Cluster) readSecrets(ctx context.Context, md *cluster.MachineDeployment) (poolSecrets, error) {
	names := lineage.NamesOf(client.ObjectKeyFromObject(md))
	out := poolSecrets{&corev1.Secret{}, &corev1.Secret{}, &corev1.Secret{}}
	into := map[string]*corev1.Secret{names.Provisioning: out.provisioning, names.Bootstrap: out.bootstrap, names.Kubeconfig: out.kubeconfig}
	if pool, err := render.DecodePool(md); err == nil && pool.HasEdgeScript() {
		into[names.EdgeScript] = &corev1.Secret{}
	}
	for _, name := range slices.Sorted(maps.Keys(into)) {
		found, err := kubeclient.Find(ctx, h.Worker, types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: name}, into[name])
		switch {
		case err != nil:
			return out, err
		case !found:
			return out, rotates("Secret %s is missing", name)
		case into[name].Annotations[api.AnnotationCredentialsExpireAt] != "":
			return out, rotates("its Secrets contain a token of its own, which ends now")
		}
	}
	return out, nil
}

// archive returns the archive of records.
func (h *Cluster) archive() archive.Archive {
	return archive.Archive{Management: h.Management, Live: h.Management, Clock: clock.RealClock{}, Namespace: h.Namespace, State: &archive.State{}}
}

// recordOf reads the record of a pool's configuration, or the archived one of its documents if the
// replacement of the configuration was interrupted. It is zero if there is none.
func (h *Cluster) recordOf(ctx context.Context, pool types.NamespacedName, osc *osm.OperatingSystemConfig, document *corev1.Secret) (render.Record, error) {
	if osc != nil {
		rec, err := lineage.ParseUnverifiedRecord([]byte(osc.Annotations[api.AnnotationRecord]))
		if err != nil {
			return render.Record{}, nil //nolint:nilerr // edited: it is no record
		}
		return rec, nil
	}
	archived, err := h.archive().FindRecord(ctx, pool, document.Annotations[api.AnnotationInputDigest])
	if err != nil || archived == nil {
		return render.Record{}, err
	}
	return archive.Record(archived), nil
}

// restoreInput returns the input of a pool's documents with the credentials that they contain. If
// it cannot be restored, or is not what the MachineDeployment requests now, the error is a *rotation.
func (h *Cluster) restoreInput(ctx context.Context, md *cluster.MachineDeployment, rec render.Record, secrets poolSecrets) (render.Input, error) {
	values, err := h.clusterValues(ctx, secrets.kubeconfig)
	if err != nil {
		return render.Input{}, err
	}
	records := desired.Records{Worker: h.Worker, Profiles: desired.Profiles{
		Cached: h.Management, Live: h.Management, Namespace: h.Namespace, Namespaces: []string{desired.AllNamespaces}, Digests: &desired.SpecDigestCache{},
	}}
	in, err := records.RestoreInput(ctx, md, rec, values)
	if _, ok := errors.AsType[*fault.ReadError](err); ok && !apierrors.IsNotFound(err) {
		return render.Input{}, err
	}
	if err != nil {
		return render.Input{}, rotates("%v", err)
	}
	now := in
	if now.Pool, err = render.DecodePool(md); err != nil {
		return render.Input{}, rotates("%v", err)
	}
	// What the cloudProviderSpec refers to is part of the credentials.
	now.Pool.CloudConfig = in.Pool.CloudConfig
	if now.InputDigest() != rec.Digests.Input {
		return render.Input{}, rotates("its MachineDeployment has changed since its Secrets were written")
	}
	return in, nil
}

// clusterValues reads the values in documents: the shared token, and those in the kubelet's kubeconfig.
func (h *Cluster) clusterValues(ctx context.Context, kubeconfig *corev1.Secret) (values render.Cluster, err error) {
	var getter corev1.Secret
	if _, err := kubeclient.Find(ctx, h.Worker, types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: api.SecretGetterToken}, &getter); err != nil {
		return values, err
	}
	text := kubeconfig.Data[api.KubeconfigKey]
	config, err := clientcmd.Load(text)
	if err != nil {
		return values, rotates("Secret %s is not a kubeconfig", kubeconfig.Name)
	}
	values = render.Cluster{APIServerToken: string(getter.Data["token"]), BootstrapKubeconfigSecretName: kubeconfig.Name, BootstrapKubeconfig: string(text)}
	for _, c := range config.Clusters {
		values.Server = c.Server
	}
	for _, user := range config.AuthInfos {
		values.BootstrapToken = user.Token
	}
	return values, nil
}

// renderAlike renders the configuration with its credentials. It is a *rotation if the documents
// that result do not mean the same as those of the pool.
func renderAlike(in render.Input, secrets poolSecrets) (spec osm.OperatingSystemConfigSpec, err error) {
	engine := render.NewEngine()
	out, err := engine.Render(in)
	if err != nil {
		return spec, rotates("%v", err)
	}
	if differences := append(takeover.Compare(secrets.provisioning, document(out.Provisioning)), takeover.Compare(secrets.bootstrap, document(out.Bootstrap))...); len(differences) > 0 {
		return spec, rotates("its Secrets are not what its configuration says: %s differs", differences[0])
	}
	return engine.RenderConfig(in)
}

func document(text []byte) *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{api.UserDataKey: text}}
}

// replaceConfig replaces the configuration of a pool. Its spec is immutable, so it is deleted and
// created; its record is archived before, from which a later run completes an interrupted one.
func (h *Cluster) replaceConfig(ctx context.Context, pool types.NamespacedName, osp *osm.OperatingSystemProfileSpec) error {
	var md cluster.MachineDeployment
	if err := h.Worker.Get(ctx, pool, &md); err != nil {
		return client.IgnoreNotFound(err)
	}
	have, next, err := h.nextConfig(ctx, &md, osp)
	if err != nil || next == nil {
		return err
	}
	// What the API server rejects must not be found out after the deletion.
	if err := h.Management.Create(ctx, next.DeepCopy(), client.DryRunAll); have == nil && err != nil || client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replaceTime)
	defer cancel()
	if have != nil {
		rec, err := h.recordOf(ctx, pool, have, nil)
		if err != nil {
			return err
		}
		if err := h.archive().Store(ctx, have, rec); err != nil {
			return err
		}
		if err := client.IgnoreNotFound(h.Management.Delete(ctx, have, client.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion})); err != nil {
			return err
		}
	}
	return h.createConfig(ctx, next)
}

// createConfig creates a configuration that replaces a deleted one. The API server has accepted it
// in a dry run, so that an error can pass: of the connection, of an API server that restarts, or a conflict.
func (h *Cluster) createConfig(ctx context.Context, next *osm.OperatingSystemConfig) error {
	passes := func(err error) bool {
		return ctx.Err() == nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsInvalid(err)
	}
	err := retry.OnError(attempts, passes, func() error { return h.Management.Create(ctx, next.DeepCopy()) })
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	// An attempt can have succeeded without an answer.
	var have osm.OperatingSystemConfig
	if readErr := h.Management.Get(ctx, client.ObjectKeyFromObject(next), &have); readErr != nil {
		return errors.Join(err, readErr)
	}
	if !equality.Semantic.DeepEqual(have.Spec, next.Spec) || !maps.Equal(have.Annotations, next.Annotations) {
		return err
	}
	return nil
}
