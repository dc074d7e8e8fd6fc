package pools

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// A configuration that the API server rejects does not prevent renewals: meanwhile the previous
// configuration is maintained, and the new one is retried less and less often.
func TestRefusedConfigurationIsWithheld(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	told := f.told()
	f.reconcile()
	tried := 0
	f.r.Management.Client = refusing{digesting{f.client}, func(obj client.Object) bool {
		osc, ok := obj.(*osm.OperatingSystemConfig)
		refused := ok && strings.Contains(osc.Annotations[api.AnnotationRecord], "v1.0.0-x")
		if refused {
			tried++
		}
		return refused
	}}
	f.spoil("two, Bearer {{ .Token }}")
	f.reconcile()
	f.reconcile()
	told.saidLast(t, api.EventWriteRefused, "creating OperatingSystemConfig")
	for range 20 {
		f.reconcile()
	}
	if tried != 1 || len(told.told) != 0 {
		t.Errorf("it was tried %d times at once, and told %q", tried, told.told)
	}
	token := f.carried(stageBootstrap)
	for range 40 {
		f.clock.Step(20 * time.Minute)
		for range 3 {
			f.reconcile()
		}
	}
	if f.carried(stageBootstrap) == token || f.carried(stageProvision) == token {
		t.Error("the token was not renewed")
	}
	if tried < 20 || tried > 45 {
		t.Errorf("in 13 hours it was tried %d times", tried)
	}
	f.r.Management.Client = digesting{f.client}
	f.pass(rejectedRetryMax)
	f.reconcile()
	if got := string(f.secret(namesOf(f.pool).Bootstrap).Data[api.UserDataKey]); !strings.Contains(got, "two, ") {
		t.Errorf("the document is the old one:\n%s", got)
	}
	if got := recordOf(f.config()).Version; got != "v1.0.0-x" {
		t.Errorf("the configuration is of %s", got)
	}
}

// A deleted configuration that is rejected when it is restored does not prevent renewals either.
func TestRefusedConfigurationThatStood(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.reconcile()
	f.delete(f.config())
	f.r.Management.Client = refusing{digesting{f.client}, func(obj client.Object) bool { _, ok := obj.(*osm.OperatingSystemConfig); return ok }}
	token := f.carried(stageBootstrap)
	f.clock.Step(13 * time.Hour)
	told := f.told()
	if _, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)}); err == nil {
		t.Error("it is not tried again")
	}
	told.saidLast(t, api.EventWriteRefused, "creating OperatingSystemConfig")
	if f.carried(stageBootstrap) == token || f.carried(stageProvision) == token {
		t.Error("the token was not renewed")
	}
}

// An object that cannot be read for a moment is not reported as deleted; the token is renewed, and
// the read is retried.
func TestUnreadIsNotGone(t *testing.T) {
	for name, suspended := range map[string]bool{"a broken profile": false, "a suspended pool": true} {
		t.Run(name, func(t *testing.T) {
			f := newBoundFixture(t, "hetzner")
			f.reconcile()
			if suspended {
				f.ask(map[string]string{api.AnnotationSuspend: "true"})
			} else {
				f.ask(map[string]string{api.AnnotationOSP: "none"})
			}
			was, token := f.config(), f.carried(stageBootstrap)
			told := f.told()
			f.r.Management.Live = awayFor[*corev1.ConfigMap]{f.client}
			f.clock.Step(13 * time.Hour)
			_, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)})
			if err == nil || !strings.Contains(err.Error(), "reading settings") {
				t.Errorf("it is not tried again: %v", err)
			}
			if len(told.told) != 0 || f.config().ResourceVersion != was.ResourceVersion {
				t.Errorf("told was %q, and the configuration says %v", told.told, f.config().Annotations[api.AnnotationRefused])
			}
			if f.carried(stageBootstrap) == token || f.carried(stageProvision) == token {
				t.Error("the token was not renewed")
			}
			f.r.Management.Live = f.client
			f.reconcile()
			version := f.secret(namesOf(f.pool).Bootstrap).ResourceVersion
			f.reconcile()
			if s := f.secret(namesOf(f.pool).Bootstrap); s.Annotations[api.AnnotationTokensDigest] == "" || s.ResourceVersion != version {
				t.Error("it was not rendered again, or does not come to rest")
			}
			if len(told.told) != 0 {
				t.Errorf("told was %q", told.told)
			}
		})
	}
}

// awayFor is an API server that does not answer for a kind.
type awayFor[T client.Object] struct{ client.Client }

func (a awayFor[T]) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(T); ok {
		return errors.New("the API server does not answer")
	}
	return a.Client.Get(ctx, key, obj, opts...)
}

// A run that was interrupted between the two documents and then finds the next profile broken
// leaves both documents for the revision whose content they have.
func TestRevisionOfTheLastGood(t *testing.T) {
	f := newFixture(t)
	f.template("1.35.1", "1")
	f.reconcile()
	f.template("1.35.2", "2")
	bootstrap := namesOf(f.pool).Bootstrap
	f.r.Worker.Client = refusingUpdates{digesting{f.client}, bootstrap}
	if _, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)}); !errors.Is(err, errCutOff) {
		t.Fatalf("it was not cut off: %v", err)
	}
	f.r.Worker.Client = digesting{f.client}
	f.osp("osp-hand", "v1.1.0", func(spec *osm.OperatingSystemProfileSpec) {
		spec.ProvisioningConfig.Files[0].Content.Inline.Data = "{{ .NetworkConfig.CIDR }}"
	})
	// The old content does not exist any more, unless a user has a copy.
	kept := f.handProfile()
	kept.ObjectMeta = metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-broken"}
	f.ensure(kept)
	f.osp("osp-hand", "v1.0.0", func(spec *osm.OperatingSystemProfileSpec) {
		spec.ProvisioningConfig.Files[0].Content.Inline.Data = "{{ .BootstrapKubeconfig }}"
	})
	f.ask(map[string]string{api.AnnotationOSP: "osp-broken"})
	for _, stage := range []string{stageProvision, stageBootstrap} {
		s := f.secret(userDataName(f.pool, stage))
		if s.Annotations[api.AnnotationRevisionFor] != "2" || s.Annotations[api.AnnotationInputDigest] != recordOf(f.config()).Digests.Input {
			t.Errorf("the %s document is for revision %s", stage, s.Annotations[api.AnnotationRevisionFor])
		}
	}
}

// refusingUpdates is a process that is cut off before it writes an object.
type refusingUpdates struct {
	digesting
	name string
}

func (r refusingUpdates) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if obj.GetName() == r.name {
		return errCutOff
	}
	return r.digesting.Update(ctx, obj, opts...)
}
