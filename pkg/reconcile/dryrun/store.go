package dryrun

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Store is the state of clusters with writes that are stored here and sent nowhere.
// Create it with NewStore.
type Store struct {
	scheme *runtime.Scheme
	clock  clock.PassiveClock

	mu      sync.Mutex
	objects map[group]map[types.NamespacedName]*object
	indexes map[string]client.IndexerFunc
	acts    []act
	writes  int                              // of acts
	changes map[types.NamespacedName]*change // of Secrets that machines boot from
	subject string                           // of the current run
	serial  int                              // for versions and UIDs
}

// ref names an object of a cluster.
type ref struct {
	cluster string
	kind    schema.GroupVersionKind
	key     types.NamespacedName
}

// group has the objects of a cluster, kind and namespace. Each pool lists some of them.
type group struct {
	cluster   string
	kind      schema.GroupVersionKind
	namespace string
}

func (at ref) group() group { return group{at.cluster, at.kind, at.key.Namespace} }

// object is a written object: its current state in JSON, or deleted.
type object struct {
	doc    []byte
	labels labels.Set
	gone   bool
}

// act is a write or an event, without its content: for ten thousand pools that would be
// gigabytes, and it is stored once, in objects.
type act struct {
	subject         string
	verb            string
	at              ref
	part            string   // the subresource, "" for the object itself
	what            []string // changed
	templateChanged bool     // the spec of a MachineDeployment changed
	event           *ReportedEvent
}

// change has a Secret before and after: in JSON, nil if it does not exist.
type change struct {
	before, after []byte
	deleted       bool // temporarily, or in the end
}

// The verbs of writes.
const (
	verbCreate = "create"
	verbUpdate = "update"
	verbPatch  = "patch"
	verbDelete = "delete"
)

// NewStore returns a Store without writes.
func NewStore(scheme *runtime.Scheme, clock clock.PassiveClock) *Store {
	w := &Store{scheme: scheme, clock: clock, indexes: map[string]client.IndexerFunc{}}
	w.Reset()
	return w
}

// Reset forgets all writes.
func (w *Store) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects, w.changes = map[group]map[types.NamespacedName]*object{}, map[types.NamespacedName]*change{}
	w.acts, w.writes, w.subject, w.serial = nil, 0, "", 0
}

// begin sets the subject of the following writes.
func (w *Store) begin(subject string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subject = subject
}

// count is the number of writes so far.
func (w *Store) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

// of returns the written object; nil if there is none.
func (w *Store) of(at ref) *object {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects[at.group()][at.key]
}

// written returns the written objects of a list: those of a kind in its namespace with
// its labels. The second result reports whether any object of the kind was written there.
func (w *Store) written(at ref, o client.ListOptions) (listed map[types.NamespacedName]*object, written bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	listed = map[types.NamespacedName]*object{}
	add := func(objects map[types.NamespacedName]*object) {
		written = written || len(objects) > 0
		for key, obj := range objects {
			if !obj.gone && (o.LabelSelector == nil || o.LabelSelector.Matches(obj.labels)) {
				listed[key] = obj
			}
		}
	}
	if o.Namespace != "" {
		at.key.Namespace = o.Namespace
		add(w.objects[at.group()])
		return listed, written
	}
	for g, objects := range w.objects {
		if g.cluster == at.cluster && g.kind == at.kind {
			add(objects)
		}
	}
	return listed, written
}

// record stores a write. An object without finalizers that is being deleted is removed.
func (w *Store) record(verb string, at ref, part string, before, after []byte) {
	m := metaOf(after)
	obj := &object{doc: after, labels: m.Labels, gone: after == nil || m.DeletionTimestamp != nil && len(m.Finalizers) == 0}
	a := act{verb: verb, at: at, part: part, what: changed(part, before, after)}
	a.templateChanged = at.kind.Kind == "MachineDeployment" && string(field(before, "spec")) != string(field(after, "spec"))
	w.mu.Lock()
	defer w.mu.Unlock()
	g := at.group()
	if w.objects[g] == nil {
		w.objects[g] = map[types.NamespacedName]*object{}
	}
	w.objects[g][at.key] = obj
	if at.kind.Kind == "Secret" && at.key.Namespace == api.NamespaceCloudInitSettings {
		// Several writes of a Secret are one change, from its first state.
		if w.changes[at.key] == nil {
			w.changes[at.key] = &change{before: before}
		}
		c := w.changes[at.key]
		c.after, c.deleted = after, c.deleted || verb == verbDelete
	}
	a.subject = w.subject
	w.acts, w.writes = append(w.acts, a), w.writes+1
}

// next returns a new number.
func (w *Store) next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	return w.serial
}

func (w *Store) version() string { return fmt.Sprintf("rehearsed-%d", w.next()) }

// Eventf records an event. It makes Store an events.EventRecorder, which has these
// parameters.
func (w *Store) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acts = append(w.acts, act{subject: w.subject, event: &ReportedEvent{
		Warning: kind == corev1.EventTypeWarning, Reason: reason, Text: redact.Text(redact.Mask(fmt.Sprintf(note, args...)), redact.MaxEvent),
	}})
}

// metaOf decodes the metadata of an object in JSON.
func metaOf(doc []byte) metav1.ObjectMeta {
	var m metav1.PartialObjectMetadata
	if json.Unmarshal(doc, &m) != nil {
		return metav1.ObjectMeta{} // it was encoded here
	}
	return m.ObjectMeta
}

// encode returns an object in JSON, without its kind, which ref has.
func encode(obj client.Object) ([]byte, error) {
	copied, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("copying %T", obj)
	}
	copied.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	doc, err := json.Marshal(copied)
	if err != nil {
		return nil, fmt.Errorf("encoding %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
	return doc, nil
}

// fill decodes an object and replaces the previous content.
func fill(obj client.Object, at ref, doc []byte) error {
	reflect.ValueOf(obj).Elem().SetZero()
	if err := json.Unmarshal(doc, obj); err != nil {
		return fmt.Errorf("decoding %T %s: %w", obj, at.key, err)
	}
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.SetGroupVersionKind(at.kind)
	}
	return nil
}

// decode decodes a state of an object; ok is false if it does not exist.
func decode[T client.Object](doc []byte, into T) (out T, ok bool) {
	if doc == nil || json.Unmarshal(doc, into) != nil {
		return into, false
	}
	return into, true
}

// newMeta adds the fields that the API server sets in a new object.
func (w *Store) newMeta(obj client.Object) {
	n := w.next()
	obj.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)))
	obj.SetResourceVersion(fmt.Sprintf("rehearsed-%d", n))
	obj.SetCreationTimestamp(metav1.NewTime(w.clock.Now().Truncate(time.Second)))
	obj.SetGeneration(1)
}
