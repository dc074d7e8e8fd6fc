package dryrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/impact"
)

// errUnrehearsed is returned for writes that no controller here does. They never reach a
// server.
var errUnrehearsed = errors.New("this kind of write is not supported in a dry run")

// View is a cluster in a Store, as a controller reads and writes it.
type View struct {
	reader // through a cache

	// Live reads what the cache does not contain.
	Live client.Reader

	kinds client.Client // for kinds only: it reads and writes nothing
}

var _ client.Client = &View{}

// View returns a cluster with a name: cached reads from a cache, whose objects trim
// reduces, and live reads from the API server.
func (w *Store) View(cluster string, cached client.Client, live client.Reader, trim Trim) *View {
	return &View{
		reader: reader{store: w, cluster: cluster, from: cached, trim: trim},
		Live:   reader{store: w, cluster: cluster, from: live}, kinds: cached,
	}
}

// state returns the current object, nil if it does not exist.
func (v *View) state(ctx context.Context, at ref) ([]byte, error) {
	// What this dry run wrote hides the state of the cluster.
	if written := v.store.of(at); written != nil {
		if written.gone {
			return nil, nil
		}
		return written.doc, nil
	}
	made, err := v.store.scheme.New(at.kind)
	if err != nil {
		return nil, fmt.Errorf("dry run of %s: %w", at.kind.Kind, err)
	}
	obj := made.(client.Object)
	err = v.Live.Get(ctx, at.key, obj)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return encode(obj)
}

// Create creates an object.
func (v *View) Create(ctx context.Context, obj client.Object, _ ...client.CreateOption) error {
	at, err := v.refTo(obj, client.ObjectKeyFromObject(obj))
	if err != nil {
		return err
	}
	have, err := v.state(ctx, at)
	if err != nil {
		return err
	}
	if have != nil {
		return apierrors.NewAlreadyExists(at.resource(), at.key.Name)
	}
	v.store.newMeta(obj)
	doc, err := encode(obj)
	if err == nil && hasStatus(at.kind) {
		doc, err = with(doc, "status", nil)
	}
	if err != nil {
		return err
	}
	v.store.record(verbCreate, at, "", nil, doc)
	return nil
}

// Update replaces an object.
func (v *View) Update(ctx context.Context, obj client.Object, _ ...client.UpdateOption) error {
	at, have, err := v.existing(ctx, obj)
	if err != nil {
		return err
	}
	was := metaOf(have)
	if version := obj.GetResourceVersion(); version != "" && version != was.ResourceVersion {
		return conflict(at)
	}
	doc, err := encode(obj)
	if err == nil {
		doc, err = v.changed(at, have, doc, "")
	}
	if err != nil {
		return err
	}
	v.store.record(verbUpdate, at, "", have, doc)
	return v.result(obj, at, doc)
}

// Patch patches an object.
func (v *View) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return v.patch(ctx, obj, patch, "")
}

func (v *View) patch(ctx context.Context, obj client.Object, patch client.Patch, part string) error {
	if patch.Type() != types.MergePatchType {
		return fmt.Errorf("patching %T by %s: %w", obj, patch.Type(), errUnrehearsed)
	}
	body, err := patch.Data(obj)
	if err != nil {
		return fmt.Errorf("encoding a patch of %T: %w", obj, err)
	}
	at, have, err := v.existing(ctx, obj)
	if err != nil {
		return err
	}
	was, asked := metaOf(have), metaOf(body)
	if asked.ResourceVersion != "" && asked.ResourceVersion != was.ResourceVersion || asked.UID != "" && asked.UID != was.UID {
		return conflict(at)
	}
	doc, err := jsonpatch.MergePatch(have, body)
	if err == nil {
		doc, err = v.changed(at, have, doc, part)
	}
	if err != nil {
		return fmt.Errorf("patching %T %s: %w", obj, at.key, err)
	}
	v.store.record(verbPatch, at, part, have, doc)
	return v.result(obj, at, doc)
}

// result returns the object as the API server does: it bypasses the cache.
func (v *View) result(obj client.Object, at ref, doc []byte) error { return fill(obj, at, doc) }

// changed returns the next state of an object: if part is set, only that part changes,
// otherwise everything except the status.
func (v *View) changed(at ref, have, doc []byte, part string) ([]byte, error) {
	if at.kind == corev1.SchemeGroupVersion.WithKind("Secret") && lost(have, doc) {
		return nil, apierrors.NewInvalid(at.kind.GroupKind(), at.key.Name, nil)
	}
	var err error
	m, was := metaOf(doc), metaOf(have)
	if part != "" || hasStatus(at.kind) {
		from, to := doc, have
		if part == "" {
			from, to = have, doc
		}
		if doc, err = with(to, "status", field(from, "status")); err != nil {
			return nil, err
		}
	}
	if part != "" {
		m = was
	}
	m.UID, m.CreationTimestamp, m.DeletionTimestamp, m.Generation = was.UID, was.CreationTimestamp, was.DeletionTimestamp, was.Generation
	if was.Generation > 0 && !bytes.Equal(field(have, "spec"), field(doc, "spec")) {
		m.Generation++
	}
	m.ResourceVersion = v.store.version()
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding metadata: %w", err)
	}
	return with(doc, "metadata", text)
}

// lost reports whether the data of an immutable Secret would change.
func lost(have, doc []byte) bool {
	was, ok := decode(have, &corev1.Secret{})
	is, _ := decode(doc, &corev1.Secret{})
	return ok && was.Immutable != nil && *was.Immutable && (!equality.Semantic.DeepEqual(was.Data, is.Data) || is.Immutable == nil || !*is.Immutable)
}

// Delete deletes an object, or marks it as deleted if it has finalizers.
func (v *View) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	at, have, err := v.existing(ctx, obj)
	if err != nil {
		return err
	}
	was := metaOf(have)
	if p := o.Preconditions; p != nil && (p.UID != nil && *p.UID != was.UID || p.ResourceVersion != nil && *p.ResourceVersion != was.ResourceVersion) {
		return conflict(at)
	}
	var after []byte
	if len(was.Finalizers) > 0 {
		was.DeletionTimestamp = &metav1.Time{Time: v.store.clock.Now().Truncate(time.Second)}
		was.ResourceVersion = v.store.version()
		text, err := json.Marshal(was)
		if err == nil {
			after, err = with(have, "metadata", text)
		}
		if err != nil {
			return err
		}
	}
	v.store.record(verbDelete, at, "", have, after)
	return nil
}

// existing returns the current object, or a NotFound error.
func (v *View) existing(ctx context.Context, obj client.Object) (ref, []byte, error) {
	at, err := v.refTo(obj, client.ObjectKeyFromObject(obj))
	if err != nil {
		return at, nil, err
	}
	have, err := v.state(ctx, at)
	if err == nil && have == nil {
		err = notFound(at)
	}
	return at, have, err
}

func conflict(at ref) error {
	return apierrors.NewConflict(at.resource(), at.key.Name, errors.New("it is another, or was changed"))
}

// hasStatus reports whether a kind has the subresource status, as our kinds do.
func hasStatus(kind schema.GroupVersionKind) bool {
	return kind.Group == api.GroupVersion.Group || kind.Group == osm.GroupVersion.Group && kind.Kind == "OperatingSystemConfig"
}

// field returns a field of an object in JSON, nil if it is absent.
func field(doc []byte, name string) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(doc, &m) != nil {
		return nil
	}
	return m[name]
}

// with returns an object with another value of a field, nil to remove it.
func with(doc []byte, name string, value json.RawMessage) ([]byte, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(doc, &m); err != nil {
		return nil, fmt.Errorf("decoding an object: %w", err)
	}
	if m[name] = value; value == nil {
		delete(m, name)
	}
	out, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	return out, nil
}

// Apply and DeleteAllOf are not supported: no controller here uses them.
func (v *View) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errUnrehearsed
}

// DeleteAllOf is not supported, see Apply.
func (v *View) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errUnrehearsed
}

// Status patches the status of objects.
func (v *View) Status() client.SubResourceWriter { return subresource{v, "status"} }

// SubResource patches a status, and generates tokens.
func (v *View) SubResource(name string) client.SubResourceClient { return subresource{v, name} }

// Scheme returns the scheme of Store.
func (v *View) Scheme() *runtime.Scheme { return v.store.scheme }

// RESTMapper returns the mapper of the cluster.
func (v *View) RESTMapper() apimeta.RESTMapper { return v.kinds.RESTMapper() }

// GroupVersionKindFor returns the kind of an object.
func (v *View) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return v.kinds.GroupVersionKindFor(obj)
}

// IsObjectNamespaced reports whether objects of a kind are in namespaces.
func (v *View) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	return v.kinds.IsObjectNamespaced(obj)
}

// subresource is a part of objects that is written separately.
type subresource struct {
	view *View
	name string
}

// Create answers a TokenRequest with an invalid token. It is as long as a real one,
// because documents have a size limit.
func (s subresource) Create(ctx context.Context, obj client.Object, body client.Object, _ ...client.SubResourceCreateOption) error {
	request, ok := body.(*authenticationv1.TokenRequest)
	if !ok || s.name != "token" {
		return errUnrehearsed
	}
	at, have, err := s.view.existing(ctx, obj)
	if err != nil {
		return err
	}
	if was := metaOf(have); request.UID != "" && request.UID != was.UID {
		return conflict(at)
	}
	now := s.view.store.clock.Now()
	request.CreationTimestamp = metav1.NewTime(now)
	life := time.Hour
	if asked := request.Spec.ExpirationSeconds; asked != nil {
		life = time.Duration(*asked) * time.Second
	}
	request.Status = authenticationv1.TokenRequestStatus{Token: impact.NodeToken(), ExpirationTimestamp: metav1.NewTime(now.Add(life))}
	s.view.store.record(verbCreate, at, s.name, have, have)
	return nil
}

func (s subresource) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	if s.name != "status" {
		return errUnrehearsed
	}
	return s.view.patch(ctx, obj, patch, s.name)
}

func (s subresource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errUnrehearsed
}

func (s subresource) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errUnrehearsed
}

func (s subresource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errUnrehearsed
}
