package pools

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

func withoutSpec(t testing.TB, doc string, at int) string {
	t.Helper()
	out, err := io.ReadAll(iotest.OneByteReader(&specless{from: io.NopCloser(iotest.HalfReader(strings.NewReader(doc))), at: at}))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestSpecless(t *testing.T) {
	for what, c := range map[string]struct {
		at         int
		doc, wants string
	}{
		"an object":                    {depthOfObject, `{"kind":"A","spec":{"spec":["}",{"a":"\"},"}]},"status":{"spec":1}}`, `{"kind":"A","status":{"spec":1}}`},
		"it comes first":               {depthOfObject, `{"spec":{},"kind":"A"}`, `{"kind":"A"}`},
		"it comes last":                {depthOfObject, `{"kind":"A","spec":"text"}` + "\n", `{"kind":"A"}` + "\n"},
		"nothing else":                 {depthOfObject, `{"spec":{"a":[1,2]}}`, `{}`},
		"none":                         {depthOfObject, `{"kind":"Status","code":404}`, `{"kind":"Status","code":404}`},
		"an annotation of that name":   {depthOfEvent, `{"type":"ADDED","object":{"metadata":{"annotations":{"spec":"x"}},"spec":{"a":{}}}}`, `{"type":"ADDED","object":{"metadata":{"annotations":{"spec":"x"}}}}`},
		"events":                       {depthOfEvent, `{"object":{"spec":1,"a":2}}` + "\n" + `{"object":{"a":3,"spec":{}}}` + "\n", `{"object":{"a":2}}` + "\n" + `{"object":{"a":3}}` + "\n"},
		"a list":                       {depthOfList, `{"metadata":{"continue":"x"},"items":[{"a":[1,2],"spec":{}},{"spec":[]},{"b":"spec"}]}`, `{"metadata":{"continue":"x"},"items":[{"a":[1,2]},{},{"b":"spec"}]}`},
		"an array at the depth":        {depthOfEvent, `{"a":[1,2,"spec",3],"b":{"spec":1}}`, `{"a":[1,2,"spec",3],"b":{}}`},
		"text, with quotes of its own": {depthOfObject, `{"a":"\\\"spec\":{","spec":"\\","b":"é"}`, `{"a":"\\\"spec\":{","b":"é"}`},
		"managed fields":               {depthOfEvent, `{"object":{"metadata":{"managedFields":[{"a":{}}],"name":"x","b":{"managedFields":1}},"managedFields":2,"status":{"managedFields":3}}}`, `{"object":{"metadata":{"name":"x","b":{"managedFields":1}},"managedFields":2,"status":{"managedFields":3}}}`},
		"managed fields alone":         {depthOfObject, `{"metadata":{"managedFields":[]},"spec":{"metadata":{"managedFields":1}}}`, `{"metadata":{}}`},
		"they come last, spec follows": {depthOfObject, `{"metadata":{"a":"spec","managedFields":{"b":[1]}},"spec":1,"c":2}`, `{"metadata":{"a":"spec"},"c":2}`},
		"metadata that is a list":      {depthOfObject, `{"metadata":["managedFields",{"managedFields":1}],"a":1}`, `{"metadata":["managedFields",{"managedFields":1}],"a":1}`},
		"no JSON: a name is an object": {depthOfObject, `{{"a":1},"b"}`, `{{"a":1}"b"}`},
		"broken off in a name":         {depthOfObject, `{"a":1,"sp`, `{"a":1"sp`},
	} {
		t.Run(what, func(t *testing.T) {
			if got := withoutSpec(t, c.doc, c.at); got != c.wants {
				t.Errorf("%s\nbecomes %s\nwant    %s", c.doc, got, c.wants)
			}
		})
	}
}

// Whatever is JSON keeps its meaning, but for what is dropped.
func FuzzSpecless(f *testing.F) {
	f.Add([]byte(`{"kind":"A","spec":{"a":"\"}"},"b":[{"spec":1}]}`))
	f.Add([]byte(`{"items":[{"spec":{}},{"a":1}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if !json.Valid(doc) {
			return
		}
		for at := depthOfObject; at <= depthOfList; at++ {
			var want, got any
			if err := json.Unmarshal(doc, &want); err != nil {
				return // deeper than the decoder goes
			}
			out := withoutSpec(t, string(doc), at)
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%s\nbecomes %s: %v", doc, out, err)
			}
			// A name that is written with escapes is not known, and stays.
			if want, got = drop(want, at), drop(got, at); !reflect.DeepEqual(got, want) {
				t.Errorf("%s\nbecomes %s", doc, out)
			}
		}
	})
}

// drop removes spec from the objects at a depth of a decoded value.
func drop(v any, at int) any {
	switch v := v.(type) {
	case map[string]any:
		if at == 1 {
			delete(v, "spec")
			if meta, ok := v["metadata"].(map[string]any); ok {
				delete(meta, "managedFields")
			}
			return v
		}
		for k := range v {
			v[k] = drop(v[k], at-1)
		}
	case []any:
		for i := range v {
			if at > 1 {
				v[i] = drop(v[i], at-1)
			}
		}
	}
	return v
}

// With a real API server: lists, watches and answers to creation have no spec and all
// else, and what is read by name has everything.
func TestLean(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	cfg := Lean(cluster.Shared(t).Config)
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: f.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	var whole osm.OperatingSystemConfig
	key := client.ObjectKey{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config}
	if err := c.Get(t.Context(), key, &whole); err != nil || len(whole.Spec.ProvisioningConfig.Files) == 0 {
		t.Fatalf("by name it has %d files (err %v)", len(whole.Spec.ProvisioningConfig.Files), err)
	}
	lacksOnlySpec := func(how string, got *osm.OperatingSystemConfig) {
		t.Helper()
		want := whole.DeepCopy()
		want.Spec, want.ManagedFields = osm.OperatingSystemConfigSpec{}, nil
		want.TypeMeta = got.TypeMeta
		if !reflect.DeepEqual(got, want) {
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			t.Errorf("by %s it is\n%s\nwant\n%s", how, a, b)
		}
	}
	var list osm.OperatingSystemConfigList
	if err := c.List(t.Context(), &list, client.InNamespace(key.Namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Name == key.Name {
			lacksOnlySpec("a list", &list.Items[i])
		}
	}
	w, err := c.Watch(t.Context(), &osm.OperatingSystemConfigList{}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	lacksOnlySpec("a watch", (<-w.ResultChan()).Object.(*osm.OperatingSystemConfig))
	made := &osm.OperatingSystemConfig{Spec: whole.Spec}
	made.Namespace, made.Name = key.Namespace, key.Name+"-2"
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	if made.UID == "" || !reflect.DeepEqual(made.Spec, osm.OperatingSystemConfigSpec{}) {
		t.Errorf("the answer to its creation is %+v", made)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil || !reflect.DeepEqual(made.Spec, whole.Spec) {
		t.Errorf("what was created differs (err %v)", err)
	}
	err = c.Create(t.Context(), &osm.OperatingSystemConfig{ObjectMeta: made.ObjectMeta})
	if !apierrors.IsInvalid(err) {
		t.Errorf("an error arrives as %v", err)
	}
}

func BenchmarkSpecless(b *testing.B) {
	doc := []byte(`{"type":"ADDED","object":{"metadata":{},"spec":{"data":"` + strings.Repeat(`line of text \n`, 2500) + `"}}}`)
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if _, err := io.Copy(io.Discard, &specless{from: io.NopCloser(bytes.NewReader(doc)), at: depthOfEvent}); err != nil {
			b.Fatal(err)
		}
	}
}
