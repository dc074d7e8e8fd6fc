package dryrun

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/impact"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/dryrun/virtual"
)

// A document says what it would mean to a machine, by names alone (security.md 15).
func TestDocuments(t *testing.T) {
	const token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.Y2FuYXJ5"
	document := func(content string) []byte {
		return []byte("#cloud-config\nwrite_files:\n- path: /opt/bin/setup\n  permissions: '0755'\n  encoding: b64\n  content: " + base64.StdEncoding.EncodeToString([]byte(content)) + "\n")
	}
	const name = "web-ns-bootstrap-config"
	state := func(content string) []byte {
		if content == "" {
			return nil
		}
		doc, err := json.Marshal(&corev1.Secret{Data: map[string][]byte{api.UserDataKey: document(content)}})
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	type act struct{ verb, before, after string }
	write := func(verb, before, after string) act { return act{verb, before, after} }
	for what, c := range map[string]struct {
		acts []act
		want Document
	}{
		"nothing is written":      {nil, Document{Change: DocumentUntouched, Equivalence: EquivalenceSame}},
		"annotations alone":       {[]act{write(virtual.VerbPatch, "canary", "canary")}, Document{Change: DocumentIdentical, Equivalence: EquivalenceSame}},
		"a new pool":              {[]act{write(virtual.VerbCreate, "", "canary")}, Document{Change: DocumentCreated}},
		"a pool that goes":        {[]act{write(virtual.VerbDelete, "canary", "")}, Document{Change: DocumentDeleted}},
		"another token":           {[]act{write(virtual.VerbUpdate, "get "+token, "get "+impact.PlaceholderNodeToken())}, Document{Change: DocumentWritten, Equivalence: EquivalenceSameToken}},
		"another bootstrap token": {[]act{write(virtual.VerbUpdate, "abcdef.0123456789abcdef", "ghijkl.0123456789abcdef")}, Document{Change: DocumentWritten, Equivalence: EquivalenceSameToken}},
		"another content":         {[]act{write(virtual.VerbUpdate, "canary", "other canary")}, Document{Change: DocumentWritten, Equivalence: EquivalenceOther, Differs: []string{`file "/opt/bin/setup"`}}},
		"replaced, and then given a token": {
			[]act{write(virtual.VerbDelete, "get "+token, ""), write(virtual.VerbCreate, "", "get "+token), write(virtual.VerbUpdate, "get "+token, "get "+impact.PlaceholderNodeToken())},
			Document{Change: DocumentWritten, Equivalence: EquivalenceSameToken, Absent: true},
		},
	} {
		w := virtual.NewStore(nil, nil)
		for _, a := range c.acts {
			w.ApplyAndRecordWrite(a.verb, virtual.Ref{Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Key: types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: name}}, "", state(a.before), state(a.after))
		}
		got := compareDocuments(w, types.NamespacedName{Namespace: "ns", Name: "web"})[0]
		if got.Change != c.want.Change || got.Equivalence != c.want.Equivalence || got.Absent != c.want.Absent || !slices.Equal(got.Differs, c.want.Differs) || got.Secret != name {
			t.Errorf("%s: got %+v, want %+v", what, got, c.want)
		}
	}
}

// Changes are named by their key, and no value is reported (security.md 15).
func TestFields(t *testing.T) {
	r := &DryRun{Store: virtual.NewStore(nil, nil)}
	r.Store.ApplyAndRecordWrite(virtual.VerbPatch, virtual.Ref{Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Key: types.NamespacedName{Namespace: "ns", Name: "s"}}, "",
		[]byte(`{"metadata":{"resourceVersion":"1","annotations":{"gone":"canary","same":"x"}},"data":{"k":"Y2FuYXJ5"},"spec":{"a":1}}`),
		[]byte(`{"metadata":{"resourceVersion":"2","annotations":{"new":"canary","same":"x"},"finalizers":["f"]},"data":{"k":"b3RoZXI="},"spec":{"a":1}}`))
	w := r.describeWrite(r.Store.RecordedActs()[0])
	if want := []string{"annotation gone", "annotation new", "data k", "finalizers"}; !slices.Equal(w.What, want) {
		t.Errorf("got %q, want %q", w.What, want)
	}
	if got, want := w.String(), "patch Secret ns/s (2 annotations, data k, finalizers)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The text has what a person looks for: what is refused, what changes for machines.
func TestText(t *testing.T) {
	r := Report{
		Sources: []Source{{Subject: Subject{Name: "ns/osps"}, Ready: true, Message: "applied main"}},
		Pools: []Pool{
			{Subject: Subject{Name: "ns/a"}, Documents: []Document{{Stage: "bootstrap", Change: DocumentIdentical, Equivalence: EquivalenceSame}}, Machines: "nothing"},
			{Subject: Subject{Name: "ns/b", Writes: []Write{{Verb: virtual.VerbDelete, Kind: "Secret", Namespace: "x", Name: "s"}}}, Machines: "something",
				Documents: []Document{{Stage: "bootstrap", Change: DocumentWritten, Absent: true, Equivalence: EquivalenceOther, Differs: []string{`file "/x"`}}}},
			{Subject: Subject{Name: "ns/c"}, Rejected: "no such profile"},
		},
		Writes: 1,
	}
	text := r.Text()
	for _, want := range []string{
		"Nothing was written.", "ProfileSource ns/osps: ready: applied main\n", "pool ns/b: 1 writes\n", "  the bootstrap document has identical content",
		"  the bootstrap document is deleted and created: it means another: file \"/x\"\n", "  delete Secret x/s\n", "pool ns/c: REFUSED: no such profile\n",
		"3 pools, 1 whose documents have the same meaning, 1 whose documents get another meaning, 1 refused; 1 writes\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text has not %q:\n%s", want, text)
		}
	}
	if !r.HasFailures() {
		t.Error("a pool is refused, and that is no failure")
	}
}

// Two dry runs of the same state have the same text, although a pool's objects are written at the
// same time. What happens to one object keeps its order.
func TestWritesAreByObject(t *testing.T) {
	write := func(verb, kind string) Write { return Write{Verb: verb, Kind: kind, Namespace: "x", Name: "node-a"} }
	want := []Write{write("delete", "OperatingSystemConfig"), write("create", "OperatingSystemConfig"), write("create", "Role"), write("create", "RoleBinding")}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 0, 2, 1}, {2, 3, 0, 1}} {
		var got []Write
		for _, i := range order {
			got = append(got, want[i])
		}
		if sortWrites(got); !reflect.DeepEqual(got, want) {
			t.Errorf("from %v: got %v", order, got)
		}
	}
}
