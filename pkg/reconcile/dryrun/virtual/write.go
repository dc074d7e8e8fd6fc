package virtual

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

// NewView returns a client of the named cluster that reads through the Store: cached reads from a
// cache, whose objects trim reduces, and live reads from the API server.
func (w *Store) NewView(cluster string, cached client.Client, live client.Reader, trim Trim) *View {
	return &View{
		reader: reader{store: w, cluster: cluster, from: cached, trim: trim},
		Live:   reader{store: w, cluster: cluster, from: live}, kinds: cached,
	}
}

// readCurrent returns the current object, nil if it does not exist.
func (v *View) readCurrent(ctx context.Context, at Ref) ([]byte, error) {
	// What this dry run wrote hides the state of the cluster.
	if written := v.store.writtenObject(at); written != nil {
		if written.gone {
			return nil, nil
		}
		return written.doc, nil
	}
	made, err := v.store.scheme.New(at.Kind)
	if err != nil {
		return nil, fmt.Errorf("dry run of %s: %w", at.Kind.Kind, err)
	}
	obj := made.(client.Object)
	err = v.Live.Get(ctx, at.Key, obj)
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
	have, err := v.readCurrent(ctx, at)
	if err != nil {
		return err
	}
	if have != nil {
		return apierrors.NewAlreadyExists(at.groupResource(), at.Key.Name)
	}
	v.store.setServerMetadata(obj)
	doc, err := encode(obj)
	if err == nil && hasStatus(at.Kind) {
		doc, err = setJSONField(doc, "status", nil)
	}
	if err != nil {
		return err
	}
	v.store.ApplyAndRecordWrite(VerbCreate, at, "", nil, doc)
	return nil
}

// Update replaces an object.
func (v *View) Update(ctx context.Context, obj client.Object, _ ...client.UpdateOption) error {
	at, have, err := v.readExisting(ctx, obj)
	if err != nil {
		return err
	}
	was := metaOf(have)
	if version := obj.GetResourceVersion(); version != "" && version != was.ResourceVersion {
		return conflict(at)
	}
	doc, err := encode(obj)
	if err == nil {
		doc, err = v.simulateServerUpdate(at, have, doc, "")
	}
	if err != nil {
		return err
	}
	v.store.ApplyAndRecordWrite(VerbUpdate, at, "", have, doc)
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
	at, have, err := v.readExisting(ctx, obj)
	if err != nil {
		return err
	}
	was, requested := metaOf(have), metaOf(body)
	if requested.ResourceVersion != "" && requested.ResourceVersion != was.ResourceVersion || requested.UID != "" && requested.UID != was.UID {
		return conflict(at)
	}
	doc, err := jsonpatch.MergePatch(have, body)
	if err == nil {
		doc, err = v.simulateServerUpdate(at, have, doc, part)
	}
	if err != nil {
		return fmt.Errorf("patching %T %s: %w", obj, at.Key, err)
	}
	v.store.ApplyAndRecordWrite(VerbPatch, at, part, have, doc)
	return v.result(obj, at, doc)
}

// result returns the object as the API server does: it bypasses the cache.
func (v *View) result(obj client.Object, at Ref, doc []byte) error { return decodeInto(obj, at, doc) }

// simulateServerUpdate returns the next state of an object: if part is set, only that part changes,
// otherwise everything except the status.
func (v *View) simulateServerUpdate(at Ref, have, doc []byte, part string) ([]byte, error) {
	if at.Kind == corev1.SchemeGroupVersion.WithKind("Secret") && changesImmutableSecret(have, doc) {
		return nil, apierrors.NewInvalid(at.Kind.GroupKind(), at.Key.Name, nil)
	}
	var err error
	m, was := metaOf(doc), metaOf(have)
	if part != "" || hasStatus(at.Kind) {
		from, to := doc, have
		if part == "" {
			from, to = have, doc
		}
		if doc, err = setJSONField(to, "status", jsonField(from, "status")); err != nil {
			return nil, err
		}
	}
	if part != "" {
		m = was
	}
	m.UID = was.UID
	m.CreationTimestamp = was.CreationTimestamp
	m.DeletionTimestamp = was.DeletionTimestamp
	m.Generation = was.Generation
	if was.Generation > 0 && !bytes.Equal(jsonField(have, "spec"), jsonField(doc, "spec")) {
		m.Generation++
	}
	m.ResourceVersion = v.store.version()
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding metadata: %w", err)
	}
	return setJSONField(doc, "metadata", text)
}

// changesImmutableSecret reports whether the data of an immutable Secret would change.
func changesImmutableSecret(have, doc []byte) bool {
	was, ok := Decode(have, &corev1.Secret{})
	is, _ := Decode(doc, &corev1.Secret{})
	return ok && was.Immutable != nil && *was.Immutable && (!equality.Semantic.DeepEqual(was.Data, is.Data) || is.Immutable == nil || !*is.Immutable)
}

// Delete deletes an object, or marks it as deleted if it has finalizers.
func (v *View) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	at, have, err := v.readExisting(ctx, obj)
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
			after, err = setJSONField(have, "metadata", text)
		}
		if err != nil {
			return err
		}
	}
	v.store.ApplyAndRecordWrite(VerbDelete, at, "", have, after)
	return nil
}

// readExisting returns the current object, or a NotFound error.
func (v *View) readExisting(ctx context.Context, obj client.Object) (Ref, []byte, error) {
	at, err := v.refTo(obj, client.ObjectKeyFromObject(obj))
	if err != nil {
		return at, nil, err
	}
	have, err := v.readCurrent(ctx, at)
	if err == nil && have == nil {
		err = notFound(at)
	}
	return at, have, err
}

func conflict(at Ref) error {
	return apierrors.NewConflict(at.groupResource(), at.Key.Name, errors.New("it is another, or was changed"))
}

// hasStatus reports whether a kind has the subresource status, as our kinds do.
func hasStatus(kind schema.GroupVersionKind) bool {
	return kind.Group == api.GroupVersion.Group || kind.Group == osm.GroupVersion.Group && kind.Kind == "OperatingSystemConfig"
}

// setJSONField returns an object with another value of a field, nil to remove it.
func setJSONField(doc []byte, name string, value json.RawMessage) ([]byte, error) {
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
	at, have, err := s.view.readExisting(ctx, obj)
	if err != nil {
		return err
	}
	if was := metaOf(have); request.UID != "" && request.UID != was.UID {
		return conflict(at)
	}
	now := s.view.store.clock.Now()
	request.CreationTimestamp = metav1.NewTime(now)
	life := time.Hour
	if requested := request.Spec.ExpirationSeconds; requested != nil {
		life = time.Duration(*requested) * time.Second
	}
	request.Status = authenticationv1.TokenRequestStatus{Token: impact.PlaceholderNodeToken(), ExpirationTimestamp: metav1.NewTime(now.Add(life))}
	s.view.store.ApplyAndRecordWrite(VerbCreate, at, s.name, have, have)
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
