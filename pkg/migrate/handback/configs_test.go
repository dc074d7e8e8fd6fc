package handback_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/handback"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
)

// interrupted creates no configuration, as if the command ended before that.
type interrupted struct{ client.Client }

var errInterrupted = errors.New("interrupted")

func (c interrupted) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if _, is := obj.(*osm.OperatingSystemConfig); is && !slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
		return errInterrupted
	}
	return c.Client.Create(ctx, obj, opts...)
}

// apply executes the steps that are about the fixture's namespace.
func (f *fixture) apply(h *handback.Cluster) error {
	f.t.Helper()
	_, p := f.planned(h)
	p.Steps = slices.DeleteFunc(p.Steps, func(s handback.Step) bool { return !strings.Contains(s.What, f.r.Namespace) })
	return p.Apply(f.t.Context(), func(string) {})
}

// config reads the configuration of a pool.
func (f *fixture) config(md *machines.MachineDeployment) *osm.OperatingSystemConfig {
	f.t.Helper()
	osc := &osm.OperatingSystemConfig{}
	key := types.NamespacedName{Namespace: f.r.Namespace, Name: lineage.NamesOf(client.ObjectKeyFromObject(md)).Config}
	if err := f.client.Get(f.t.Context(), key, osc); err != nil {
		f.t.Fatal(err)
	}
	return osc
}

func (f *fixture) secret(name string) *corev1.Secret {
	f.t.Helper()
	s := &corev1.Secret{}
	if err := f.client.Get(f.t.Context(), types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: name}, s); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// A pool whose Secrets remain valid gets the configuration that OSM would have created, with
// credentials. An interrupted handback is completed by the next, and both clean up. The controller
// takes the pool over again without replacing a Secret.
func TestHandbackConfigs(t *testing.T) {
	f := newFixture(t)
	f.r.Settings.NodeHTTPProxy = "http://user:canary@proxy.example.com"
	edge := f.machineDeployment("edge", "edge")
	f.patch(f.pool, `{"metadata":{"annotations":{"`+api.AnnotationMDRevision+`":"3"}}}`)
	for _, md := range []*machines.MachineDeployment{f.pool, edge} {
		f.reconcile(md)
	}
	names := lineage.NamesOf(client.ObjectKeyFromObject(f.pool))
	before := []*corev1.Secret{f.secret(names.Provisioning), f.secret(names.Bootstrap), f.secret(names.Kubeconfig)}
	if ours := f.config(f.pool).Spec.ProvisioningConfig.Files[0].Content.Inline.Data; !strings.Contains(ours, "000000.0000000000000000") {
		t.Fatalf("the configuration has no placeholder: %s", ours)
	}

	h := f.handback()
	h.Management = interrupted{f.client}
	if err := f.apply(h); !errors.Is(err, errInterrupted) {
		t.Fatalf("got %v", err)
	}
	if err := f.apply(f.handback()); err != nil {
		t.Fatal(err)
	}
	osc := f.config(f.pool)
	want := map[string]string{
		api.AnnotationRevisionFor: "3", api.AnnotationOSPVersion: "v1.0.0", api.AnnotationMDAnnotationsHash: takeover.AnnotationsHash(f.pool.Annotations),
	}
	if len(osc.Annotations) != len(want) || len(osc.Labels) != 0 {
		t.Errorf("it has annotations %q and labels %q", osc.Annotations, osc.Labels)
	}
	for k, v := range want {
		if osc.Annotations[k] != v {
			t.Errorf("annotation %s is %q, want %q", k, osc.Annotations[k], v)
		}
	}
	if got, want := osc.Spec.ProvisioningConfig.Files[0].Content.Inline.Data, string(before[2].Data[api.KubeconfigKey]); got != want {
		t.Errorf("the kubeconfig in it is %q, want %q", got, want)
	}
	f.config(edge)
	f.secret(lineage.NamesOf(client.ObjectKeyFromObject(edge)).EdgeScript)
	if steps, _ := f.planned(f.handback()); len(steps) != 0 {
		t.Errorf("afterwards planned is %q", steps)
	}

	f.reconcile(f.pool)
	if f.config(f.pool).Annotations[api.AnnotationRecord] == "" {
		t.Error("the pool is not taken over")
	}
	for _, was := range before {
		if now := f.secret(was.Name); now.UID != was.UID || now.ResourceVersion != was.ResourceVersion {
			t.Errorf("%s was written", was.Name)
		}
	}
}

// Pools that OSM will rotate keep their configuration, by which it notices, and a warning says why.
func TestHandbackRotates(t *testing.T) {
	f := newFixture(t)
	names := lineage.NamesOf(client.ObjectKeyFromObject(f.pool))
	document := &corev1.Secret{}
	document.Namespace, document.Name = api.NamespaceCloudInitSettings, names.Bootstrap
	f.reconcile(f.pool)
	for _, c := range []struct {
		change, undo func()
		says         string
	}{
		{
			func() {
				f.patch(document, `{"metadata":{"annotations":{"`+api.AnnotationCredentialsExpireAt+`":"2030-01-01T00:00:00Z"}}}`)
			},
			func() {
				f.patch(document, `{"metadata":{"annotations":{"`+api.AnnotationCredentialsExpireAt+`":null}}}`)
			},
			"contain a token of its own",
		},
		{
			func() { f.patch(document, `{"data":{"cloud-config":"I2Nsb3VkLWNvbmZpZwo="}}`) },
			func() { f.reconcile(f.pool) },
			"are not what its configuration says",
		},
		{
			func() { f.patch(f.pool, `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.35.1"}}}}}`) },
			func() { f.patch(f.pool, `{"spec":{"template":{"spec":{"versions":{"kubelet":"1.35.0"}}}}}`) },
			"has changed since",
		},
		{
			func() { f.patch(f.pool, `{"metadata":{"annotations":{"`+api.AnnotationMDRevision+`":"2"}}}`) },
			func() { f.patch(f.pool, `{"metadata":{"annotations":{"`+api.AnnotationMDRevision+`":null}}}`) },
			"is not of its present configuration and revision",
		},
		{
			func() { f.patch(f.pool, `{"metadata":{"annotations":{"`+api.AnnotationOSP+`":"osp-ubuntu"}}}`) },
			func() { f.patch(f.pool, `{"metadata":{"annotations":{"`+api.AnnotationOSP+`":"osp-hand"}}}`) },
			`the version of its profile "osp-ubuntu" is not known`,
		},
	} {
		c.change()
		steps, p := f.planned(f.handback())
		if slices.ContainsFunc(steps, func(s string) bool { return strings.HasPrefix(s, "replace") }) {
			t.Errorf("%s: planned is %q", c.says, steps)
		}
		if !slices.ContainsFunc(p.Warnings, func(w string) bool {
			return strings.Contains(w, "MachineDeployment "+f.r.Namespace+"/pool again: ") && strings.Contains(w, c.says)
		}) {
			t.Errorf("warnings are %q, want %q", p.Warnings, c.says)
		}
		c.undo()
	}
	if steps, _ := f.planned(f.handback()); !slices.Contains(steps, "replace OperatingSystemConfig NS/pool-NS-config by one of operating-system-manager") {
		t.Errorf("planned is %q", steps)
	}
}
