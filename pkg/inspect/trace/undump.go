package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/osm-gitops/osm-gitops/pkg/githost"
)

// Bounds of a dump that is read.
const (
	maxDumpLine = 8 << 20 // 8 MiB; the API server holds less
	maxDump     = 4 << 30 // 4 GiB, of all lines without compression
)

// File is a dump that was read.
type File struct {
	// Written is when, Namespace that of the controller.
	Written   time.Time
	Namespace string

	management, worker *store
}

// Clusters read the dump as if it were the clusters.
func (f *File) Clusters(hosts githost.Hosts) Clusters {
	return Clusters{Management: f.management, Worker: f.worker, Namespace: f.Namespace, Hosts: hosts}
}

// ReadDump reads what Dump has written, compressed by gzip or not.
func ReadDump(from io.Reader) (*File, error) {
	in := bufio.NewReader(from)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) { // RFC 1952
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("unpacking the dump: %w", err)
		}
		in = bufio.NewReader(unpacked)
	}
	scheme, err := dumpScheme()
	if err != nil {
		return nil, err
	}
	r := &dumpReader{scheme: scheme}
	lines := bufio.NewScanner(io.LimitReader(in, maxDump))
	lines.Buffer(nil, maxDumpLine)
	for lines.Scan() {
		r.line++
		if err := r.read(lines.Bytes()); err != nil {
			return nil, fmt.Errorf("line %d of the dump: %w", r.line, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d of the dump: %w", r.line+1, err)
	}
	if r.file == nil || !r.ended {
		return nil, errors.New("the dump ends before its end: it was cut off, or is no dump of osm-gitops trace --dump")
	}
	r.file.management.sort()
	r.file.worker.sort()
	return r.file, nil
}

type dumpReader struct {
	scheme  *runtime.Scheme
	file    *File
	line    int
	objects int
	ended   bool
}

func (r *dumpReader) read(text []byte) error {
	var line dumpLine
	if err := json.Unmarshal(text, &line); err != nil {
		return fmt.Errorf("it is no JSON of a dump: %w", err)
	}
	switch {
	case r.file == nil:
		return r.begin(line.Header)
	case r.ended:
		return errors.New("it comes after the end")
	case line.End != nil:
		if r.ended = true; line.End.Objects != r.objects {
			return fmt.Errorf("%d objects were written, and %d are there", line.End.Objects, r.objects)
		}
		return nil
	}
	to := map[string]*store{inManagement: r.file.management, inWorker: r.file.worker}[line.Cluster]
	switch {
	case to == nil:
		return fmt.Errorf("unknown cluster %q", line.Cluster)
	case line.Unread != nil:
		to.unread[schema.GroupKind{Group: line.Unread.Group, Kind: line.Unread.Kind}] = *line.Unread
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
		return fmt.Errorf("it is no object: %w", err)
	}
	kind := obj.GroupVersionKind().GroupKind()
	to.objects[kind] = append(to.objects[kind], stored{namespace: obj.Metadata.Namespace, name: obj.Metadata.Name, labels: obj.Metadata.Labels, text: line.Object})
	return nil
}

func (r *dumpReader) begin(h *dumpHeader) error {
	if h == nil || h.Kind != dumpKind {
		return errors.New("it is not the header of a dump of osm-gitops trace --dump")
	}
	if h.Version != dumpVersion {
		return fmt.Errorf("the dump has version %d, this program reads %d: use the release that wrote it", h.Version, dumpVersion)
	}
	r.file = &File{Written: h.Written, Namespace: h.Namespace, management: newStore(r.scheme)}
	r.file.worker = r.file.management
	if h.Apart {
		r.file.worker = newStore(r.scheme)
	}
	return nil
}

// store is a cluster in memory, of which one can read. It implements client.Reader.
type store struct {
	scheme  *runtime.Scheme
	objects map[schema.GroupKind][]stored
	unread  map[schema.GroupKind]unread
}

type stored struct {
	namespace, name string
	labels          labels.Set
	text            []byte
}

func newStore(scheme *runtime.Scheme) *store {
	return &store{scheme: scheme, objects: map[schema.GroupKind][]stored{}, unread: map[schema.GroupKind]unread{}}
}

func (s *store) sort() {
	for _, of := range s.objects {
		slices.SortFunc(of, compareStored)
	}
}

func compareStored(a, b stored) int {
	return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
}

// kindIn is the kind of an object, or of the items of a list.
func kindIn(s *runtime.Scheme, obj runtime.Object) (schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(obj, s)
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	return kind, err
}

// reads is an error for a kind that the dump does not have.
func (s *store) reads(kind schema.GroupVersionKind, name string) error {
	u, ok := s.unread[kind.GroupKind()]
	switch {
	case !ok:
		return nil
	case u.State == Missing:
		return &apimeta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}, name, errors.New("it was not readable for who wrote the dump"))
}

// Get implements client.Reader.
func (s *store) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	kind, err := kindIn(s.scheme, obj)
	if err != nil {
		return err
	}
	if err := s.reads(kind, key.Name); err != nil {
		return err
	}
	of := s.objects[kind.GroupKind()]
	i, found := slices.BinarySearchFunc(of, stored{namespace: key.Namespace, name: key.Name}, compareStored)
	if !found {
		return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}, key.Name)
	}
	return of[i].into(obj)
}

func (o stored) into(obj runtime.Object) error {
	if err := json.Unmarshal(o.text, obj); err != nil {
		return fmt.Errorf("reading %s/%s in the dump: %w", o.namespace, o.name, err)
	}
	return nil
}

// List implements client.Reader. It selects by labels, and by name and namespace.
func (s *store) List(_ context.Context, objects client.ObjectList, opts ...client.ListOption) error {
	kind, err := kindIn(s.scheme, objects)
	if err != nil {
		return err
	}
	if err := s.reads(kind, ""); err != nil {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	of := s.objects[kind.GroupKind()]
	at := 0
	if o.Continue != "" {
		if at, err = strconv.Atoi(o.Continue); err != nil || at < 0 || at > len(of) {
			return fmt.Errorf("%q is no place in a dump to go on from", o.Continue)
		}
	}
	var items []runtime.Object
	for ; at < len(of) && (o.Limit == 0 || int64(len(items)) < o.Limit); at++ {
		if !of[at].matches(o) {
			continue
		}
		item, err := s.newItem(kind, objects)
		if err != nil {
			return err
		}
		if err := of[at].into(item); err != nil {
			return err
		}
		items = append(items, item)
	}
	if at < len(of) {
		objects.SetContinue(strconv.Itoa(at))
	}
	return apimeta.SetList(objects, items)
}

func (s *store) newItem(kind schema.GroupVersionKind, of client.ObjectList) (runtime.Object, error) {
	if _, ok := of.(*metav1.PartialObjectMetadataList); ok {
		return &metav1.PartialObjectMetadata{}, nil
	}
	return s.scheme.New(kind)
}

func (o stored) matches(opts *client.ListOptions) bool {
	return (opts.Namespace == "" || opts.Namespace == o.namespace) &&
		(opts.LabelSelector == nil || opts.LabelSelector.Matches(o.labels)) &&
		(opts.FieldSelector == nil || opts.FieldSelector.Matches(fields.Set{"metadata.name": o.name, "metadata.namespace": o.namespace}))
}
