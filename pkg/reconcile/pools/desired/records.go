package desired

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Records reads what the records of configurations refer to.
type Records struct {
	Profiles Profiles
	// Worker reads the Secrets of pools, from the API server.
	Worker client.Reader
	// CA is that of --node-kubernetes-ca-cert, in PEM. Without one, it is that of the record.
	CA string
}

// RestoreInput rebuilds the input of a generation from its record, with the current tokens, server
// and CA.
func (r Records) RestoreInput(ctx context.Context, md *cluster.MachineDeployment, rec render.Record, values render.Cluster) (render.Input, error) {
	if rec.Object == "" {
		return render.Input{}, fmt.Errorf("OperatingSystemConfig %s/%s is missing or was edited, and its record is not stored elsewhere", r.Profiles.Namespace, lineage.NamesOf(client.ObjectKeyFromObject(md)).Config)
	}
	osp, err := r.Profiles.ReadObject(ctx, rec.Object)
	if err != nil {
		return render.Input{}, fault.MarkReadError(err)
	}
	settings, err := r.storedSettings(ctx, rec.SettingsDigest)
	if err != nil {
		return render.Input{}, err
	}
	input, err := rec.RebuildInput(osp.Spec, r.Profiles.Digests.SpecDigest(osp), settings)
	if err != nil {
		return render.Input{}, err
	}
	// An edited record must not produce documents.
	if got := input.InputDigest(); got != rec.Digests.Input {
		return render.Input{}, fmt.Errorf("the record of OperatingSystemConfig %s was edited: its content has digest %s, it says %s", lineage.NamesOf(client.ObjectKeyFromObject(md)).Config, got, rec.Digests.Input)
	}
	input.Settings.KubernetesCACert, input.Cluster = cmp.Or(r.CA, input.Settings.KubernetesCACert), values
	hidden := input.Credentials()
	// A generation without credentials has none stored.
	if hidden.Empty() {
		return input, nil
	}
	credentials, err := r.storedCredentials(ctx, md, rec.Digests.Input)
	if err != nil {
		return render.Input{}, err
	}
	return input.WithCredentials(credentials), nil
}

// HasProfile reports whether the content of a record's profile exists unchanged.
func (r Records) HasProfile(ctx context.Context, rec render.Record) bool {
	osp, err := r.Profiles.profileObject(ctx, r.Profiles.Cached, rec.Object)
	return err == nil && r.Profiles.Digests.SpecDigest(osp) == rec.ObjectDigest
}

// storedSettings reads settings from the ConfigMap that is named by their digest.
func (r Records) storedSettings(ctx context.Context, digest string) ([]byte, error) {
	key := types.NamespacedName{Namespace: r.Profiles.Namespace, Name: lineage.SettingsName(digest)}
	var cm corev1.ConfigMap
	if err := r.Profiles.Live.Get(ctx, key, &cm); err != nil {
		return nil, fault.MarkReadError(fmt.Errorf("reading settings %s: %w", key, err))
	}
	return []byte(cm.Data[lineage.SettingsKey]), nil
}

// storedCredentials reads the credentials of a generation from the pool's Secret.
func (r Records) storedCredentials(ctx context.Context, md *cluster.MachineDeployment, inputDigest string) (render.Credentials, error) {
	key := types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: lineage.NamesOf(client.ObjectKeyFromObject(md)).Inputs}
	var secret corev1.Secret
	if err := r.Worker.Get(ctx, key, &secret); err != nil {
		return render.Credentials{}, fault.MarkReadError(fmt.Errorf("reading credentials %s: %w", key, err))
	}
	var credentials render.Credentials
	data, ok := secret.Data[render.ShortDigest(inputDigest)]
	if !ok {
		return credentials, fmt.Errorf("the Secret %s has no credentials for the input digest %s", key, inputDigest)
	}
	if err := json.Unmarshal(data, &credentials); err != nil {
		return credentials, fmt.Errorf("reading credentials %s: the JSON is broken", key)
	}
	return credentials, nil
}
