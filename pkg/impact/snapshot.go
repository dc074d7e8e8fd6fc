package impact

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

const (
	snapshotKind    = "OSMGitopsSnapshot"
	snapshotVersion = 1

	// ConfigMapName is the ConfigMap in which the controller publishes a snapshot.
	ConfigMapName = "osm-gitops-snapshot"
	// configMapKey is the key in its binaryData.
	configMapKey = "snapshot.json.gz"

	// maxConfigMapBytes is the limit for the data of a ConfigMap, 1 MiB with its key:
	// https://kubernetes.io/docs/concepts/configuration/configmap/#motivation
	maxConfigMapBytes = 1<<20 - 1<<10
	// MaxSnapshotBytes bounds a decompressed snapshot: some 50,000 pools.
	MaxSnapshotBytes = 64 << 20 // 64 MiB
)

// snapshot is a PoolSnapshot in a file. It contains no time: equal pools give equal files.
type snapshot struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	PoolSnapshot
}

// Encode writes a snapshot, compressed or readable.
func (f PoolSnapshot) Encode(compress bool) ([]byte, error) {
	f.sortLists()
	b, err := json.MarshalIndent(snapshot{snapshotKind, snapshotVersion, f}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the snapshot: %w", err)
	}
	b = append(b, '\n')
	if !compress {
		return b, nil
	}
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, err = z.Write(b)
	if err := errors.Join(err, z.Close()); err != nil {
		return nil, fmt.Errorf("compressing the snapshot: %w", err)
	}
	return buf.Bytes(), nil
}

// ErrTooLarge says that a snapshot exceeds the size of a ConfigMap.
var ErrTooLarge = errors.New("it is too large for a ConfigMap")

// ConfigMap returns the ConfigMap that the controller publishes, or ErrTooLarge.
func (f PoolSnapshot) ConfigMap() (*corev1.ConfigMap, error) {
	b, err := f.Encode(true)
	if err != nil {
		return nil, err
	}
	if len(b) > maxConfigMapBytes {
		return nil, fmt.Errorf("the snapshot of %d pools has %d bytes compressed, of at most %d: %w; write it in a job with osm-gitops snapshot instead of --publish-snapshot", len(f.Pools), len(b), maxConfigMapBytes, ErrTooLarge)
	}
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name: ConfigMapName, Namespace: f.Namespace,
			Labels: map[string]string{api.LabelManagedBy: api.FieldManager},
		},
		BinaryData: map[string][]byte{configMapKey: b},
	}, nil
}

// Decode reads a snapshot: uncompressed, compressed, or in its ConfigMap as kubectl prints
// it.
func Decode(r io.Reader) (PoolSnapshot, error) {
	b, err := readBounded(r)
	if err != nil {
		return PoolSnapshot{}, err
	}
	if !bytes.HasPrefix(b, []byte("\x1f\x8b")) && !bytes.HasPrefix(bytes.TrimSpace(b), []byte(`{`)) || bytes.Contains(b[:min(len(b), 4<<10)], []byte("binaryData")) {
		var cm corev1.ConfigMap
		if err := yaml.Unmarshal(b, &cm); err != nil || len(cm.BinaryData[configMapKey]) == 0 {
			return PoolSnapshot{}, fmt.Errorf("is neither a snapshot nor the ConfigMap %s with one: write it with osm-gitops snapshot, or kubectl get configmap %s -o yaml", ConfigMapName, ConfigMapName)
		}
		b = cm.BinaryData[configMapKey]
	}
	if bytes.HasPrefix(b, []byte("\x1f\x8b")) {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return PoolSnapshot{}, fmt.Errorf("is invalid gzip: %w", err)
		}
		if b, err = readBounded(z); err != nil {
			return PoolSnapshot{}, err
		}
	}
	var s snapshot
	if err := json.Unmarshal(b, &s); err != nil {
		return PoolSnapshot{}, fmt.Errorf("is not a snapshot: %w", err)
	}
	if s.Kind != snapshotKind || s.Version != snapshotVersion {
		return PoolSnapshot{}, fmt.Errorf("is not a snapshot of this release: found kind %q and version %d, expected %q and %d: write it again with this release", s.Kind, s.Version, snapshotKind, snapshotVersion)
	}
	for i, p := range s.Pools { // the file is untrusted
		s.Pools[i].Inputs = redactPool(p.Inputs)
	}
	for name, settings := range s.Settings {
		s.Settings[name] = RedactSettings(settings.Settings, settings.Cluster.Server)
	}
	s.sortLists()
	return s.PoolSnapshot, nil
}

func readBounded(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxSnapshotBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if len(b) > MaxSnapshotBytes {
		return nil, fmt.Errorf("is larger than %d bytes", MaxSnapshotBytes)
	}
	return b, nil
}
