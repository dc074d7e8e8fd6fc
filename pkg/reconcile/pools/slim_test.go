package pools

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// frameOf is an event of a watch as the API server sends it.
func frameOf(t testing.TB, f *fixture, obj runtime.Object) []byte {
	t.Helper()
	serializer := protobuf.NewSerializer(f.client.Scheme(), f.client.Scheme())
	var object bytes.Buffer
	if err := serializer.Encode(obj, &object); err != nil {
		t.Fatal(err)
	}
	event, err := (&metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: object.Bytes()}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

func slimmedFrames(t testing.TB, s slimming, stream []byte) []byte {
	t.Helper()
	out, err := io.ReadAll(iotest.OneByteReader(&slimmed{from: io.NopCloser(iotest.HalfReader(bytes.NewReader(stream))), slimming: s}))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever comes from a watch arrives, or what CacheTransform keeps of it.
func FuzzSlim(f *testing.F) {
	eventOf := func(secret *corev1.Secret) (event, raw []byte) {
		raw, err := secret.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		unknown, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Raw: raw}).Marshal()
		if err != nil {
			f.Fatal(err)
		}
		event, err = (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: append([]byte(protobufMagic), unknown...)}}).Marshal()
		if err != nil {
			f.Fatal(err)
		}
		return event, raw
	}
	for _, other := range []*corev1.Secret{
		{}, {ObjectMeta: metav1.ObjectMeta{Name: "without-data"}},
		{ObjectMeta: metav1.ObjectMeta{Name: api.SecretGetterToken}, Data: map[string][]byte{"token": []byte("t")}},
		{ObjectMeta: metav1.ObjectMeta{Name: "b", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}, Immutable: ptr(true), Type: "t", Data: map[string][]byte{"": nil, "a": {}}},
	} {
		event, _ := eventOf(other)
		f.Add(event)
	}
	event, secret := eventOf(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string][]byte{api.UserDataKey: []byte("#cloud-config")}})
	f.Add(event)
	f.Add(event[:len(event)-1])
	f.Add(secret)
	f.Fuzz(func(t *testing.T, event []byte) {
		frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
		out := slimmedFrames(t, slimming{"Secret", slimUserData}, slices.Concat(frame, frame))
		half := len(out) / 2
		if !bytes.Equal(out[:half], out[half:]) {
			t.Fatalf("%q\ntwice becomes %q", frame, out)
		}
		if bytes.Equal(out[:half], frame) {
			return
		}
		before, after := secretIn(frame), secretIn(out[:half])
		if before == nil {
			return // client-go would not have understood it either
		}
		want, err := CacheTransform(before)
		if err != nil {
			t.Fatal(err)
		}
		got, err := CacheTransform(after)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q\nbecomes %+v\nwant %+v (err %v)", frame, got, want, err)
		}
	})
}

// secretIn decodes the Secret of a frame, nil where there is none.
func secretIn(frame []byte) *corev1.Secret {
	var event metav1.WatchEvent
	var unknown runtime.Unknown
	var secret corev1.Secret
	if event.Unmarshal(frame[frameHeader:]) != nil || unknown.Unmarshal(bytes.TrimPrefix(event.Object.Raw, []byte(protobufMagic))) != nil || secret.Unmarshal(unknown.Raw) != nil {
		return nil
	}
	return &secret
}

// What cannot be slimmed goes on as it is, broken off or not.
func TestSlimPassesOn(t *testing.T) {
	f := newFixture(t)
	status := frameOf(t, f, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired})
	secret := frameOf(t, f, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	many := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Data: map[string][]byte{}}
	for i := range mostFrame/len(dataDigest(nil)) + 1 { // with a digest each, they are too long for client-go
		many.Data[strconv.FormatInt(int64(i), 36)] = nil
	}
	huge := append(binary.BigEndian.AppendUint32(nil, mostFrame+1), "and more"...)
	for what, stream := range map[string][]byte{
		"nothing":            {},
		"a Status":           status,
		"a broken header":    {0, 0},
		"a broken frame":     secret[:len(secret)-1],
		"a frame of nothing": {0, 0, 0, 0},
		"too long a frame":   huge,
		"longer if slimmed":  frameOf(t, f, many),
	} {
		if got := slimmedFrames(t, slimming{"Secret", slimUserData}, stream); !bytes.Equal(got, stream) {
			const most = 1 << 10
			t.Errorf("%s: %.*q (%d bytes) becomes %.*q (%d bytes)", what, most, stream, len(stream), most, got, len(got))
		}
	}
}

// Another cache may need what ours do not.
func TestSlimmingOf(t *testing.T) {
	for request, want := range map[string]string{
		"GET /api/v1/namespaces/cloud-init-settings/secrets?watch=true":                                                "Secret",
		"GET /api/v1/namespaces/cloud-init-settings/secrets?watch=true&labelSelector=a":                                "Secret",
		"GET /api/v1/namespaces/cloud-init-settings/secrets?watch=true&fieldSelector=metadata.name%3Dregistry":         "",
		"GET /api/v1/namespaces/cloud-init-settings/secrets":                                                           "",
		"GET /api/v1/namespaces/cloud-init-settings/secrets/a":                                                         "",
		"GET /api/v1/namespaces/default/secrets?watch=true":                                                            "",
		"GET /api/v1/namespaces/kube-system/secrets?watch=true":                                                        "Secret",
		"POST /api/v1/namespaces/cloud-init-settings/secrets":                                                          "Secret",
		"PUT /api/v1/namespaces/cloud-init-settings/secrets/a":                                                         "Secret",
		"POST /api/v1/namespaces/kube-system/secrets":                                                                  "",
		"PATCH /api/v1/namespaces/cloud-init-settings/secrets/a":                                                       "",
		"GET /api/v1/namespaces/cloud-init-settings/serviceaccounts?watch=1":                                           "ServiceAccount",
		"POST /api/v1/namespaces/cloud-init-settings/serviceaccounts/a/token":                                          "",
		"GET /apis/rbac.authorization.k8s.io/v1/namespaces/cloud-init-settings/roles?watch=1":                          "Role",
		"GET /apis/rbac.authorization.k8s.io/v1/namespaces/cloud-init-settings/rolebindings?watch=1":                   "RoleBinding",
		"GET /api/v1/namespaces/kube-public/configmaps?watch=1&fieldSelector=metadata.name%3Dcluster-info":             "ConfigMap",
		"GET /api/v1/namespaces/kube-public/configmaps?watch=1":                                                        "",
		"GET /api/v1/namespaces/cloud-init-settings/configmaps?watch=1&fieldSelector=metadata.name%3Dcluster-info":     "",
		"GET /api/v1/namespaces/cloud-init-settings/secrets?watch=true&fieldSelector=metadata.name%3Dcluster-info":     "",
		"GET /api/v1/namespaces/cloud-init-settings/serviceaccounts?watch=1&fieldSelector=metadata.name%3Dcluster-inf": "",
	} {
		method, url, _ := strings.Cut(request, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "https://localhost"+url, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, watch, ok := slimmingOf(req)
		if got.kind != want || ok != (want != "") || ok && watch != (method == http.MethodGet) {
			t.Errorf("%s: the %s is slimmed, want %q (watch %v)", request, got.kind, want, watch)
		}
	}
}

// With a real API server: what the caches keep is the same with and without Lean.
func TestLeanWatches(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.reconcile()
	signed := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data:       map[string]string{kubeclient.ClusterInfoKey: "apiVersion: v1", "jws-kubeconfig-abcdef": "signature"},
	}
	if err := f.client.Create(t.Context(), signed); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.client.Delete(t.Context(), signed); err != nil {
			t.Error(err)
		}
	}()
	lean, err := client.NewWithWatch(Lean(cluster.Shared(t).Config), client.Options{Scheme: f.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := client.NewWithWatch(cluster.Shared(t).Config, client.Options{Scheme: f.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	all := func(c client.WithWatch, list client.ObjectList, opts ...client.ListOption) map[string]client.Object {
		t.Helper()
		initial := true
		opts = append(opts, &client.ListOptions{Raw: &metav1.ListOptions{SendInitialEvents: &initial, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}})
		w, err := c.Watch(t.Context(), list, opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		out := map[string]client.Object{}
		for e := range w.ResultChan() {
			obj, ok := e.Object.(client.Object)
			if !ok {
				t.Fatalf("the watch says %+v", e.Object)
			}
			if obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				break
			}
			out[obj.GetName()] = obj
		}
		return out
	}
	settings := client.InNamespace(api.NamespaceCloudInitSettings)
	info := []client.ListOption{client.InNamespace(metav1.NamespacePublic), client.MatchingFields{metav1.ObjectNameField: "cluster-info"}}
	for _, c := range []struct {
		kind string
		list client.ObjectList
		opts []client.ListOption
		keep func(any) (any, error)
	}{
		{"Secret", &corev1.SecretList{}, []client.ListOption{settings}, CacheTransform},
		{"ServiceAccount", &corev1.ServiceAccountList{}, []client.ListOption{settings}, CacheTransform},
		{"Role", &rbacv1.RoleList{}, []client.ListOption{settings}, CacheTransform},
		{"RoleBinding", &rbacv1.RoleBindingList{}, []client.ListOption{settings}, CacheTransform},
		{"ConfigMap", &corev1.ConfigMapList{}, info, TrimClusterInfo},
	} {
		want, got := all(plain, c.list, c.opts...), all(lean, c.list, c.opts...)
		if len(want) == 0 {
			t.Errorf("there is no %s", c.kind)
		}
		for name, obj := range got {
			if len(obj.GetManagedFields()) > 0 {
				t.Errorf("%s %s has managed fields", c.kind, name)
			}
			if cm, ok := obj.(*corev1.ConfigMap); ok && len(cm.Data) != 1 {
				t.Errorf("%s has %d keys", name, len(cm.Data))
			}
			if s, ok := obj.(*corev1.Secret); ok && len(s.Data[api.UserDataKey]) > len(dataDigest(nil)) {
				t.Errorf("%s %s has %d bytes of user-data", c.kind, name, len(s.Data[api.UserDataKey]))
			}
		}
		for _, objs := range []map[string]client.Object{want, got} {
			for name, obj := range objs {
				kept, err := c.keep(obj)
				if err != nil {
					t.Fatal(err)
				}
				objs[name] = kept.(client.Object)
			}
		}
		if !maps.EqualFunc(got, want, func(a, b client.Object) bool { return reflect.DeepEqual(a, b) }) {
			t.Errorf("of kind %s the caches keep\n%+v\nwant\n%+v", c.kind, got, want)
		}
	}
}

// With a real API server: the answer to a write has all but user-data, what is written
// has everything, and errors arrive.
func TestLeanWrites(t *testing.T) {
	f := newFixture(t)
	c, err := client.New(Lean(cluster.Shared(t).Config), client.Options{Scheme: f.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	document := []byte(strings.Repeat("#cloud-config\n", 1000))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "lean-writes", Annotations: map[string]string{"a": "b"}},
		Data:       map[string][]byte{api.UserDataKey: document, "other": []byte("o")},
	}
	t.Cleanup(func() { _ = f.client.Delete(t.Context(), secret) })
	answered := func(how string, want string) {
		t.Helper()
		if secret.UID == "" || secret.ResourceVersion == "" || secret.Annotations["a"] != want || len(secret.Data) != 1 || string(secret.Data["other"]) != "o" {
			t.Errorf("the answer to its %s is %+v", how, secret)
		}
		var stands corev1.Secret
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), &stands); err != nil || !bytes.Equal(stands.Data[api.UserDataKey], document) {
			t.Errorf("after its %s it has %d bytes (err %v)", how, len(stands.Data[api.UserDataKey]), err)
		}
	}
	if err := c.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	answered("creation", "b")
	document = append(document, "# more\n"...)
	secret.Data[api.UserDataKey], secret.Annotations["a"] = document, "c"
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	answered("update", "c")
	again := secret.DeepCopy()
	again.ResourceVersion, again.UID = "", ""
	if err := c.Create(t.Context(), again); client.IgnoreAlreadyExists(err) != nil || err == nil {
		t.Errorf("a second creation says %v", err)
	}
	if kind := (schema.GroupVersionKind{}); secret.GroupVersionKind() != kind {
		t.Errorf("it is a %v", secret.GroupVersionKind())
	}
}
