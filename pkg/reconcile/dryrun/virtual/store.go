package virtual

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
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
	acts    []Act
	writes  int                              // of acts
	changes map[types.NamespacedName]*Change // of Secrets that machines boot from
	subject string                           // of the current run
	serial  int                              // for versions and UIDs
}

// Ref names an object of a cluster.
type Ref struct {
	Cluster string
	Kind    schema.GroupVersionKind
	Key     types.NamespacedName
}

// group has the objects of a cluster, kind and namespace. Each pool lists some of them.
type group struct {
	cluster   string
	kind      schema.GroupVersionKind
	namespace string
}

func (at Ref) group() group { return group{at.Cluster, at.Kind, at.Key.Namespace} }

// object is a written object: its current state in JSON, or deleted.
type object struct {
	doc    []byte
	labels labels.Set
	gone   bool
}

// Act is a write or an event, without its content: for ten thousand pools that would be
// gigabytes, and it is stored once, in objects.
type Act struct {
	Subject         string
	Verb            string
	At              Ref
	Part            string   // the subresource, "" for the object itself
	What            []string // changed
	TemplateChanged bool     // the spec of a MachineDeployment changed
	Event           *Event
}

// Change has a Secret before and after: in JSON, nil if it does not exist.
type Change struct {
	Before, After []byte
	Deleted       bool // temporarily, or in the end
}

// The verbs of writes.
const (
	VerbCreate = "create"
	VerbUpdate = "update"
	VerbPatch  = "patch"
	VerbDelete = "delete"
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
	w.objects, w.changes = map[group]map[types.NamespacedName]*object{}, map[types.NamespacedName]*Change{}
	w.acts = nil
	w.writes = 0
	w.subject = ""
	w.serial = 0
}

// SetSubject sets the subject of the following writes.
func (w *Store) SetSubject(subject string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subject = subject
}

// WriteCount is the number of writes so far.
func (w *Store) WriteCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

// RecordedActs returns the writes and events so far.
func (w *Store) RecordedActs() []Act {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.acts)
}

// ChangeOf returns the change of a Secret that machines boot from; nil if there is none.
func (w *Store) ChangeOf(secret string) *Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changes[types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: secret}]
}

// writtenObject returns the written object; nil if there is none.
func (w *Store) writtenObject(at Ref) *object {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects[at.group()][at.Key]
}

// listWritten returns the written objects of a list: those of a kind in its namespace with
// its labels. The second result reports whether any object of the kind was written there.
func (w *Store) listWritten(at Ref, o client.ListOptions) (listed map[types.NamespacedName]*object, listWritten bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	listed = map[types.NamespacedName]*object{}
	add := func(objects map[types.NamespacedName]*object) {
		listWritten = listWritten || len(objects) > 0
		for key, obj := range objects {
			if !obj.gone && (o.LabelSelector == nil || o.LabelSelector.Matches(obj.labels)) {
				listed[key] = obj
			}
		}
	}
	if o.Namespace != "" {
		at.Key.Namespace = o.Namespace
		add(w.objects[at.group()])
		return listed, listWritten
	}
	for g, objects := range w.objects {
		if g.cluster == at.Cluster && g.kind == at.Kind {
			add(objects)
		}
	}
	return listed, listWritten
}

// ApplyAndRecordWrite stores a write. An object without finalizers that is being deleted is removed.
func (w *Store) ApplyAndRecordWrite(verb string, at Ref, part string, before, after []byte) {
	m := metaOf(after)
	obj := &object{doc: after, labels: m.Labels, gone: after == nil || m.DeletionTimestamp != nil && len(m.Finalizers) == 0}
	a := Act{Verb: verb, At: at, Part: part, What: changedFieldNames(part, before, after)}
	a.TemplateChanged = at.Kind.Kind == "MachineDeployment" && string(jsonField(before, "spec")) != string(jsonField(after, "spec"))
	w.mu.Lock()
	defer w.mu.Unlock()
	g := at.group()
	if w.objects[g] == nil {
		w.objects[g] = map[types.NamespacedName]*object{}
	}
	w.objects[g][at.Key] = obj
	if at.Kind.Kind == "Secret" && at.Key.Namespace == api.NamespaceCloudInitSettings {
		// Several writes of a Secret are one change, from its first state.
		if w.changes[at.Key] == nil {
			w.changes[at.Key] = &Change{Before: before}
		}
		c := w.changes[at.Key]
		c.After, c.Deleted = after, c.Deleted || verb == VerbDelete
	}
	a.Subject = w.subject
	w.acts, w.writes = append(w.acts, a), w.writes+1
}

// nextSerial returns a new number.
func (w *Store) nextSerial() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	return w.serial
}

func (w *Store) version() string { return fmt.Sprintf("rehearsed-%d", w.nextSerial()) }

// Eventf records an event. It makes Store an events.EventRecorder, which has these
// parameters.
func (w *Store) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acts = append(w.acts, Act{Subject: w.subject, Event: &Event{
		Warning: kind == corev1.EventTypeWarning, Reason: reason, Text: redact.PrintableText(redact.Mask(fmt.Sprintf(note, args...)), redact.MaxEvent),
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

// decodeInto decodes an object and replaces the previous content.
func decodeInto(obj client.Object, at Ref, doc []byte) error {
	reflect.ValueOf(obj).Elem().SetZero()
	if err := json.Unmarshal(doc, obj); err != nil {
		return fmt.Errorf("decoding %T %s: %w", obj, at.Key, err)
	}
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.SetGroupVersionKind(at.Kind)
	}
	return nil
}

// Decode decodes a state of an object; ok is false if it does not exist.
func Decode[T client.Object](doc []byte, into T) (out T, ok bool) {
	if doc == nil || json.Unmarshal(doc, into) != nil {
		return into, false
	}
	return into, true
}

// setServerMetadata adds the fields that the API server sets in a new object.
func (w *Store) setServerMetadata(obj client.Object) {
	n := w.nextSerial()
	obj.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)))
	obj.SetResourceVersion(fmt.Sprintf("rehearsed-%d", n))
	obj.SetCreationTimestamp(metav1.NewTime(w.clock.Now().Truncate(time.Second)))
	obj.SetGeneration(1)
}

// Event is an event that the controller would emit.
type Event struct {
	Warning bool   `json:"warning"`
	Reason  string `json:"reason"`
	Text    string `json:"text"`
}
