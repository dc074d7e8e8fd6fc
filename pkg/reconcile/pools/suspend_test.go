package pools

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
)

// documents are the two Secrets of the fixture's pool.
func (f *fixture) documents() []*corev1.Secret {
	f.t.Helper()
	return []*corev1.Secret{f.secret(namesOf(f.pool).Provisioning), f.secret(namesOf(f.pool).Bootstrap)}
}

// kubelet changes the template of the pool, as a new revision.
func (f *fixture) kubelet(version, revision string) {
	f.t.Helper()
	f.ask(nil)
	f.pool.Spec.Template.Spec.Versions.Kubelet = version
	must(nil, f.client.Update(f.t.Context(), f.pool))
	f.ask(map[string]string{api.AnnotationMDRevision: revision})
}

func (f *fixture) follow(when, revision string) {
	f.t.Helper()
	for _, s := range f.documents() {
		if got := s.Annotations[api.AnnotationRevisionFor]; got != revision {
			f.t.Errorf("%s: %s is for revision %q, want %q", when, s.Name, got, revision)
		}
	}
	if got := f.osc().Annotations[api.AnnotationRevisionFor]; got != revision {
		f.t.Errorf("%s: the configuration is for revision %q, want %q", when, got, revision)
	}
}

func TestSuspendedPool(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	f.offers(f.r.Namespace, "v1.0.0")
	f.version(f.r.Namespace, "v1.0.0")
	f.version(f.r.Namespace, "v1.1.0")
	// Suspended from the start it gets its first configuration all the same.
	f.ask(map[string]string{api.AnnotationOSP: "osp-a", api.AnnotationSuspend: "true", api.AnnotationMDRevision: "1"})
	f.has("the first configuration", "osp-a-v1.0.0", strings.Repeat("5", 40))
	told.saidLast(t, `ConfigSuspended: the configuration is frozen at profile "osp-a" v1.0.0 at commit 1000`, "remove annotation gitops.k8c.io/suspend")
	osc, documents := f.osc(), f.documents()

	f.offers(f.r.Namespace, "v1.1.0")
	f.ask(map[string]string{api.AnnotationVersionPin: "no version at all"})
	if after := f.osc(); after.UID != osc.UID || after.ResourceVersion != osc.ResourceVersion {
		t.Error("the configuration was written")
	}
	f.kubelet("1.35.1", "2")
	f.follow("a new revision", "2")
	for i, s := range f.documents() {
		if !bytes.Equal(s.Data[api.UserDataKey], documents[i].Data[api.UserDataKey]) {
			t.Errorf("%s has another content", s.Name)
		}
	}
	if len(told.told) != 0 {
		t.Errorf("told was %q", told.told)
	}

	// The tokens are renewed: the controller did not run until they had expired.
	f.clock.Step(3 * time.Hour)
	f.ask(nil)
	f.has("a new token", "osp-a-v1.0.0", strings.Repeat("5", 40))
	document := f.documents()[0].Data[api.UserDataKey]
	var fresh []byte
	for _, token := range f.tokens(t.Context()) {
		if end, err := time.Parse(time.RFC3339, string(token.Data["expiration"])); err == nil && end.After(f.clock.Now()) {
			fresh = token.Data["token-secret"]
		}
	}
	if fresh == nil || !bytes.Contains(document, fresh) || !bytes.Contains(document, []byte("1.35.0")) || bytes.Contains(document, []byte("1.35.1")) {
		t.Errorf("the document does not carry the new token %q, or is of another kubelet:\n%s", fresh, document)
	}

	f.ask(map[string]string{api.AnnotationSuspend: "yes"})
	told.saidLast(t, "OperatingSystemProfileError", `annotation gitops.k8c.io/suspend: "yes" is neither "true", which freezes the configuration, nor "false"`)
	f.has("nobody knows what was meant", "osp-a-v1.0.0", strings.Repeat("5", 40))

	f.ask(map[string]string{api.AnnotationSuspend: "true"})
	if all := strings.Join(told.told, "\n"); strings.Contains(all, api.EventConfigHealed) {
		t.Errorf("a frozen pool that does not have what it asks for was told %q", all)
	}

	f.ask(map[string]string{api.AnnotationSuspend: "", api.AnnotationVersionPin: ""})
	f.has("resumed", "osp-a-v1.1.0", strings.Repeat("5", 40))
	if all := strings.Join(told.told, "\n"); strings.Count(all, "ConfigResumed") != 1 || strings.Count(all, "ConfigRotated") != 1 {
		t.Errorf("told was %q", told.told)
	}
	if document := f.documents()[0].Data[api.UserDataKey]; !bytes.Contains(document, []byte("1.35.1")) {
		t.Errorf("the document is of another kubelet:\n%s", document)
	}
}

// A suspended pool whose profile does not exist any more retains its documents, and they follow its
// revision.
func TestSuspendedPoolOfAProfileThatIsGone(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	f.ask(map[string]string{api.AnnotationSuspend: "true", api.AnnotationMDRevision: "1"})
	f.delete(&osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-hand"}})
	before := f.documents()
	told.told = nil
	f.kubelet("1.35.1", "2")
	f.follow("a new revision", "2")
	for i, s := range f.documents() {
		if !bytes.Equal(s.Data[api.UserDataKey], before[i].Data[api.UserDataKey]) {
			t.Errorf("%s has another content", s.Name)
		}
	}
	told.saidLast(t, "the pool is suspended by annotation gitops.k8c.io/suspend, and what it has cannot be rendered again", "osp-hand")
	f.clock.Step(40 * time.Minute)
	f.ask(nil)
	if got, want := string(f.tokens(t.Context())[0].Data["expiration"]), string(token.Expiration(f.clock.Now().Add(token.Life))); got != want {
		t.Errorf("the token ends at %s, want %s", got, want)
	}
}
