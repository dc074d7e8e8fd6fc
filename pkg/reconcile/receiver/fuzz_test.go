package receiver

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// inMemory holds the sources of a fuzz run: thousands of requests a second are none
// for a real API server, with which listener_test.go has to do.
type inMemory struct {
	client.Client
	sources []api.ProfileSource
	patched []string
}

func (m *inMemory) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*api.ProfileSourceList).Items = slices.Clone(m.sources)
	return nil
}

func (m *inMemory) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
	m.patched = append(m.patched, obj.GetName())
	return nil
}

// FuzzListener: no request causes a panic, only requests signed with the key have an
// effect, and the response is one of those that are documented (security.md 22).
func FuzzListener(f *testing.F) {
	providers := []string{"github", "gitlab", "gitea", "bitbucket", "generic"}
	for _, fix := range fixtures {
		for _, path := range []string{Path, Path + "/n/" + fix.provider} {
			event, content := "", ""
			if e, ok := events[fix.provider]; ok {
				event = fix.header.Get(e.header)
			}
			f.Add(uint8(slices.Index(providers, fix.provider)), path, event, content, "", fix.body(f), true)
			f.Add(uint8(slices.Index(providers, fix.provider)), path, event, content, "sha256=00", fix.body(f), false)
		}
	}
	f.Add(uint8(0), Path, "push", "application/x-www-form-urlencoded", "", []byte("payload=%7B%22ref%22%3A%22refs%2Fheads%2Fmain%22%7D"), true)
	f.Add(uint8(3), Path, "repo:push", "", "", []byte(`{"push":{"changes":[null,{"new":null,"old":null}]},"changes":[null]}`), true)
	f.Fuzz(func(t *testing.T, which uint8, path, event, content, proof string, body []byte, good bool) {
		provider := providers[int(which)%len(providers)]
		m := &inMemory{}
		l := &Listener{Client: m, Namespace: "n"}
		l.init()
		for i, p := range providers {
			m.sources = append(m.sources, api.ProfileSource{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: p, CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0))},
				Spec: api.ProfileSourceSpec{
					Git:     &api.GitSource{URL: "https://github.com/Codertocat/Hello-World"},
					Webhook: &api.Webhook{Provider: p, SecretRef: meta.LocalObjectReference{Name: p}},
				},
			})
			// No fuzzer finds 32 random bytes.
			l.keys.known.Add(types.NamespacedName{Namespace: "n", Name: p}, cachedKey{key: []byte("zUs0rm4lYk3vfbX1aQdW7cEh9gTnJp2e" + p)}, time.Hour)
		}
		r := httptest.NewRequest(http.MethodPost, "http://x"+Path, bytes.NewReader(body))
		r.URL.Path = path
		if good {
			r.Header = sign(provider, "zUs0rm4lYk3vfbX1aQdW7cEh9gTnJp2e"+provider, body)
		} else {
			r.Header.Set(credentialHeaders[provider][0], proof)
		}
		if e, ok := events[provider]; ok && event != "" {
			r.Header.Set(e.header, event)
		}
		if content != "" {
			r.Header.Set("Content-Type", content)
		}
		w := httptest.NewRecorder()
		l.ServeHTTP(w, r)
		if !slices.Contains([]int{202, 401, 404, 413}, w.Code) || w.Body.Len() > 0 {
			t.Fatalf("the answer is %d %q", w.Code, w.Body)
		}
		if len(m.patched) > 0 && (!good || w.Code != 202) {
			t.Fatalf("a stranger is listened to: %v", m.patched)
		}
		if slices.ContainsFunc(m.patched, func(name string) bool { return name != provider }) {
			t.Fatalf("the key of %s requests reconciliations of %v", provider, m.patched)
		}
		if good && w.Code == 401 && (path == Path || path == Path+"/n/"+provider) {
			t.Fatal("who has the key is refused")
		}
	})
}
