package pools

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// spoil changes the profile by hand to what no pool can have: its old content is
// nowhere any more.
func (f *fixture) spoil(content string) {
	f.t.Helper()
	var osp osm.OperatingSystemProfile
	if err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.r.Namespace, Name: "osp-token"}, &osp); err != nil {
		f.t.Fatal(err)
	}
	osp.Spec.Version += "-x"
	osp.Spec.BootstrapConfig.Files[0].Content.Inline.Data = content
	if err := f.client.Update(f.t.Context(), &osp); err != nil {
		f.t.Fatal(err)
	}
}

// Documents that cannot be rendered again retain a valid token, for days, and are rendered when
// that is possible again.
func TestTokenIsExchanged(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.reconcile()
	before := bearer.ReplaceAll(f.secret(namesOf(f.pool).Bootstrap).Data[api.UserDataKey], nil)
	f.spoil("{{ .NetworkConfig.CIDR }}")
	token := ""
	for i := range 3 {
		f.pass(13 * time.Hour)
		if i%2 == 1 {
			f.restart()
		}
		f.reconcile()
		secret := f.secret(namesOf(f.pool).Bootstrap)
		now := f.carried(stageBootstrap)
		if now == token || now != f.carried(stageProvision) {
			t.Fatal("the token was not exchanged")
		}
		token = now
		if left := lineage.AnnotatedTime(secret.Annotations, api.AnnotationCredentialsExpireAt).Sub(f.clock.Now()); left < 11*time.Hour {
			t.Errorf("the token has %s left", left)
		}
		if got := bearer.ReplaceAll(secret.Data[api.UserDataKey], nil); !bytes.Equal(got, before) || secret.Annotations[api.AnnotationOSPVersion] != "v1.0.0" {
			t.Errorf("the document is another one:\n%s", got)
		}
	}
	answers(t, token, "/"+namesOf(f.pool).Kubeconfig, http.StatusOK)

	f.spoil("mended, Bearer {{ .Token }}")
	f.reconcile()
	secret := f.secret(namesOf(f.pool).Bootstrap)
	if !bytes.Contains(secret.Data[api.UserDataKey], []byte("mended")) || secret.Annotations[api.AnnotationTokensDigest] == "" {
		t.Error("the document was not rendered again")
	}
	version := secret.ResourceVersion
	if f.reconcile(); f.secret(secret.Name).ResourceVersion != version {
		t.Error("it does not come to rest")
	}
}

// A token that a profile has encoded is not found: the event says when it expires, and the
// controller does not retry in a loop.
func TestEncodedTokenIsNotExchanged(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.spoil("{{ .Token | b64enc }}")
	told := &remembered{EventRecorder: events.NewFakeRecorder(1000)}
	f.r.Recorder = told
	f.reconcile()
	secret := f.secret(namesOf(f.pool).Bootstrap)
	f.spoil("{{ .NetworkConfig.CIDR }}")
	f.pass(13 * time.Hour)
	if res := f.reconcile(); res.RequeueAfter < time.Minute {
		t.Errorf("the next look is in %s", res.RequeueAfter)
	}
	if again := f.secret(secret.Name); again.ResourceVersion != secret.ResourceVersion {
		t.Error("the document was written")
	}
	if says := "the token in Secret " + secret.Name + " ends at " + secret.Annotations[api.AnnotationCredentialsExpireAt]; !strings.Contains(strings.Join(told.told, "\n"), says) {
		t.Errorf("events %q do not say %q", told.told, says)
	}
}
