package dump

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// The two clusters of a snapshot. A single cluster is the management cluster.
const (
	ManagementCluster = "management"
	WorkerCluster     = "worker"
)

const (
	fileKind    = "OSMGitopsDump"
	fileVersion = 1
	// Bounds of a snapshot that is read.
	maxLine = 8 << 20 // 8 MiB; the API server holds less
	maxSize = 4 << 30 // 4 GiB, of all lines without compression
)

// Snapshot is what a file has in place of a live cluster, or of two.
type Snapshot struct {
	Header

	// Management and Worker are the same if there is one cluster.
	Management, Worker *Objects
}

// Header describes a snapshot.
type Header struct {
	// Written is when, Namespace that of the controller.
	Written   time.Time `json:"written"`
	Namespace string    `json:"namespace"`
	// Apart: there are two clusters.
	Apart bool `json:"apart,omitempty"`
}

// Objects are those of one cluster.
type Objects struct {
	// Objects are in the order of namespaces and names.
	Objects map[schema.GroupKind][]Object
	// Unreadable are the kinds that could not be read.
	Unreadable map[schema.GroupKind]UnreadableKind
}

// Object is an object without credentials.
type Object struct {
	Namespace, Name string
	Labels          labels.Set
	JSON            []byte
}

// UnreadableKind is a kind that could not be read.
type UnreadableKind struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	// State is Missing for a kind that the cluster does not have, or "Unreadable".
	State string `json:"state"`
	Why   string `json:"why"`
}

// Missing is the state of a kind that the cluster did not have.
const Missing = "Missing"

// entry is one line of a snapshot, a JSON object with one of these fields in addition to the
// cluster. The first line is a header, the last an end marker.
type entry struct {
	Header     *headerLine     `json:"header,omitempty"`
	Cluster    string          `json:"cluster,omitempty"`
	Object     json.RawMessage `json:"object,omitempty"`
	Unreadable *UnreadableKind `json:"unread,omitempty"`
	End        *endLine        `json:"end,omitempty"`
}

type headerLine struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	Header  `json:",inline"`
}

type endLine struct {
	Objects int `json:"objects"`
}

// Writer writes a snapshot.
type Writer struct {
	// Objects is how many were added.
	Objects int

	out *bufio.Writer
	enc *json.Encoder
}

// NewWriter begins a snapshot, which Close ends.
func NewWriter(to io.Writer, header Header) (*Writer, error) {
	out := bufio.NewWriter(to)
	w := &Writer{out: out, enc: json.NewEncoder(out)}
	w.enc.SetEscapeHTML(false)
	return w, w.write(entry{Header: &headerLine{Kind: fileKind, Version: fileVersion, Header: header}})
}

// Add adds an object, whose kind is set, without anything that can be a credential. It ignores
// objects that are not part of chains.
func (w *Writer) Add(in string, obj lineage.Object) error {
	safe := withoutCredentials(obj)
	if safe == nil {
		return nil
	}
	text, err := json.Marshal(safe)
	if err != nil {
		return fmt.Errorf("encoding %s %s/%s: %w", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetNamespace(), obj.GetName(), err)
	}
	w.Objects++
	return w.write(entry{Cluster: in, Object: text})
}

// AddUnreadable adds a kind that could not be read.
func (w *Writer) AddUnreadable(in string, kind UnreadableKind) error {
	return w.write(entry{Cluster: in, Unreadable: &kind})
}

// Close ends the snapshot. It does not close what it is written to.
func (w *Writer) Close() error {
	if err := w.write(entry{End: &endLine{Objects: w.Objects}}); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("writing the dump: %w", err)
	}
	return nil
}

func (w *Writer) write(line entry) error {
	if err := w.enc.Encode(line); err != nil {
		return fmt.Errorf("writing the dump: %w", err)
	}
	return nil
}

// lastApplied is where kubectl apply stores a whole object, with what its Secret held
// (security.md 15).
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// withoutCredentials copies of an object what chains are made from, and nothing that may
// be a credential. It returns nil for an object that no chain needs.
func withoutCredentials(obj lineage.Object) lineage.Object {
	obj, ok := obj.DeepCopyObject().(lineage.Object)
	if !ok {
		return nil
	}
	obj.SetManagedFields(nil)
	annotations := maps.Clone(obj.GetAnnotations())
	delete(annotations, lastApplied)
	obj.SetAnnotations(annotations)
	switch o := obj.(type) {
	case *api.ProfileSource, *osm.OperatingSystemProfile, *api.NodeProvenance:
	case *osm.OperatingSystemConfig:
		if _, ok := lineage.IntactRecordOf(o); !ok { // the reference's holds credentials
			o.Spec = osm.OperatingSystemConfigSpec{}
			removeUnknownMetadata(o)
		}
	case *appsv1.ControllerRevision:
		if _, ok := lineage.DecodeIntactRecord(o.Data.Raw); !ok {
			o.Data = runtime.RawExtension{}
		}
	case *corev1.ConfigMap:
		if o.Data[lineage.SettingsKey] == "" || !strings.HasPrefix(o.Name, lineage.SettingsPrefix) {
			return nil
		}
		o.Data, o.BinaryData = map[string]string{lineage.SettingsKey: o.Data[lineage.SettingsKey]}, nil
	case *cluster.MachineDeployment:
		o.Spec = cluster.MachineDeploymentSpec{Replicas: o.Spec.Replicas, Paused: o.Spec.Paused} // the provider's may hold credentials
		removeUnknownMetadata(o)
	case *cluster.Machine:
		o.Spec = cluster.MachineSpec{}
		removeUnknownMetadata(o)
	case *metav1.PartialObjectMetadata:
		removeUnknownMetadata(o)
	default:
		return nil
	}
	return obj
}

// removeUnknownMetadata removes labels and annotations that no chain needs.
func removeUnknownMetadata(obj lineage.Object) {
	unknown := func(key, _ string) bool {
		for _, prefix := range []string{api.GroupVersion.Group + "/", "k8c.io/", "machinedeployment.clusters.k8s.io/"} {
			if strings.HasPrefix(key, prefix) {
				return false
			}
		}
		switch key {
		case api.LabelManagedBy, api.LabelOwnedBy, api.AnnotationMachine:
			return false
		}
		return true
	}
	labels, annotations := maps.Clone(obj.GetLabels()), maps.Clone(obj.GetAnnotations())
	maps.DeleteFunc(labels, unknown)
	maps.DeleteFunc(annotations, unknown)
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
}

// Read reads what a Writer has written, compressed by gzip or not.
func Read(from io.Reader) (*Snapshot, error) {
	in := bufio.NewReader(from)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // RFC 1952
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("unpacking the dump: %w", err)
		}
		in = bufio.NewReader(unpacked)
	}
	r := &reader{}
	lines := bufio.NewScanner(io.LimitReader(in, maxSize))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		r.line++
		if err := r.read(lines.Bytes()); err != nil {
			return nil, fmt.Errorf("line %d of the dump: %w", r.line, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d of the dump: %w", r.line+1, err)
	}
	if r.snapshot == nil || !r.ended {
		return nil, errors.New("the dump is incomplete, or was not written by osm-gitops trace --dump")
	}
	for _, objects := range []*Objects{r.snapshot.Management, r.snapshot.Worker} {
		for _, ofKind := range objects.Objects {
			slices.SortFunc(ofKind, Object.Compare)
		}
	}
	return r.snapshot, nil
}

// Compare orders objects by namespace and name.
func (o Object) Compare(other Object) int {
	return cmp.Or(strings.Compare(o.Namespace, other.Namespace), strings.Compare(o.Name, other.Name))
}

type reader struct {
	snapshot *Snapshot
	line     int
	objects  int
	ended    bool
}

func (r *reader) read(text []byte) error {
	var line entry
	if err := json.Unmarshal(text, &line); err != nil {
		return fmt.Errorf("invalid JSON: %w", err)
	}
	switch {
	case r.snapshot == nil:
		return r.readHeader(line.Header)
	case r.ended:
		return errors.New("it is after the end")
	case line.End != nil:
		if r.ended = true; line.End.Objects != r.objects {
			return fmt.Errorf("incomplete dump: %d objects were written, %d were found", line.End.Objects, r.objects)
		}
		return nil
	}
	to := map[string]*Objects{ManagementCluster: r.snapshot.Management, WorkerCluster: r.snapshot.Worker}[line.Cluster]
	switch {
	case to == nil:
		return fmt.Errorf("unknown cluster %q", line.Cluster)
	case line.Unreadable != nil:
		to.Unreadable[schema.GroupKind{Group: line.Unreadable.Group, Kind: line.Unreadable.Kind}] = *line.Unreadable
		return nil
	}
	r.objects++
	var obj struct { // what is selected by
		metav1.TypeMeta
		Metadata struct {
			Namespace, Name string
			Labels          labels.Set
		}
	}
	if err := json.Unmarshal(line.Object, &obj); err != nil {
		return fmt.Errorf("invalid object: %w", err)
	}
	kind := obj.GroupVersionKind().GroupKind()
	to.Objects[kind] = append(to.Objects[kind], Object{Namespace: obj.Metadata.Namespace, Name: obj.Metadata.Name, Labels: obj.Metadata.Labels, JSON: line.Object})
	return nil
}

// readHeader rejects the header of another format or version, and prepares the snapshot for its
// objects.
func (r *reader) readHeader(h *headerLine) error {
	if h == nil || h.Kind != fileKind {
		return errors.New("it is not the header of a dump of osm-gitops trace --dump")
	}
	if h.Version != fileVersion {
		return fmt.Errorf("the dump has version %d, this program reads %d: use the release that wrote it", h.Version, fileVersion)
	}
	r.snapshot = &Snapshot{Header: h.Header, Management: newObjects()}
	// One cluster has both roles.
	r.snapshot.Worker = r.snapshot.Management
	if h.Apart {
		r.snapshot.Worker = newObjects()
	}
	return nil
}

func newObjects() *Objects {
	return &Objects{Objects: map[schema.GroupKind][]Object{}, Unreadable: map[schema.GroupKind]UnreadableKind{}}
}
