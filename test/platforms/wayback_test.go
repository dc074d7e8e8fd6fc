package platforms

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// Neither the switch nor the handback nor operating-system-manager after it replaces a Secret of a pool
// that does not change. A pool that has changed has a token of its own, and its Secrets are
// replaced once. Each program has the permissions of the platform.
func TestWayBack(t *testing.T) {
	t.Run("KubeOne", func(t *testing.T) {
		k := newKubeOne(t)
		withoutWebhooks := slices.DeleteFunc(k.embedded(), func(o *unstructured.Unstructured) bool {
			return strings.HasSuffix(o.GetKind(), "WebhookConfiguration") // no Pod of operating-system-manager answers
		})
		k.apply(withoutWebhooks)
		s := e2e.NewSystemOn(t, k.cluster)
		l := e2e.NewLegacy(s, 13)
		k.apply(k.embedded())

		k.apply(k.ours())
		takeOver(s, l)
		l.Client = as(s, "system:serviceaccount:kube-system:operating-system-manager")
		l.WayBack(func() {
			handBack(s)
			k.apply(withoutWebhooks)
		}, "pool-02")
	})
	t.Run("KKP", func(t *testing.T) {
		s := newKKP(t)
		l := e2e.NewLegacy(s, 13)
		if err := s.Cluster.Apply(t.Context(), e2e.RepoPath("deploy/kkp/user-cluster.yaml")); err != nil {
			t.Fatal(err)
		}
		takeOver(s, l)
		l.Client = as(s, kkpUser)
		l.WayBack(func() { handBack(s) }, "pool-02")
	})
}

// takeOver runs the controller until it has taken over all pools, changes pool-02, and stops it.
func takeOver(s *e2e.System, l *e2e.Legacy) {
	s.T.Helper()
	for _, pool := range []string{"pool-01", "pool-05"} {
		node := s.Joins(pool, pool+"-node", nil)
		s.Status(&machines.Machine{}, pool+"-node", `{"nodeRef":{"kind":"Node","name":"`+node.Name+`"}}`)
	}
	s.Git.Push(map[string]string{"a.yaml": e2e.LegacyProfile("osp-legacy", "v1.0.0", "install"), "b.yaml": e2e.LegacyProfile("osp-legacy-flatcar", "v1.0.0", "install")})
	s.Source()
	s.Start("--leader-elect=true")
	s.Eventually("the controller to take over all pools", func() error {
		var list osm.OperatingSystemConfigList
		if err := s.Client.List(s.T.Context(), &list, client.InNamespace(e2e.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}); err != nil {
			return err
		}
		for _, osc := range list.Items {
			if err := s.Applied(strings.TrimSuffix(osc.Name, "-"+s.Pools+"-config")); err != nil {
				return err
			}
		}
		if len(list.Items) != len(l.Pools) {
			return fmt.Errorf("it has made %d configurations", len(list.Items))
		}
		return nil
	})
	l.CheckKept()
	s.NoError(s.Client.Patch(s.T.Context(), s.MachineDeployment("pool-02"), client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"providerSpec":{"value":{"sshPublicKeys":["ssh-ed25519 AAAA changed"]}}}}}}`))))
	s.Eventually("pool-02 to have a token of its own", func() error {
		bootstrap, provisioning, err := s.Secrets("pool-02")
		if err != nil || bootstrap.Annotations[api.AnnotationCredentialsExpireAt] != "" && provisioning.Annotations[api.AnnotationCredentialsExpireAt] != "" {
			return err
		}
		return errors.New("it has the shared one")
	})
	s.Stop()
}

func handBack(s *e2e.System) {
	s.T.Helper()
	run := func(flags ...string) error {
		status, out, errs := s.Runs(append([]string{"handback", "--kubeconfig", s.Cluster.Kubeconfig, "--namespace", e2e.Namespace}, flags...)...)
		if status != 0 {
			return fmt.Errorf("it ended with %d: %s%s", status, out, errs)
		}
		return nil
	}
	s.Eventually("no obstacle", func() error { return run("--dry-run") })
	s.NoError(run()) // the first run succeeds, although deleted policies are applied for a moment more
}

// as is a client with the permissions of a user.
func as(s *e2e.System, user string) client.Client {
	s.T.Helper()
	cfg := rest.CopyConfig(s.Cluster.Config)
	cfg.Impersonate.UserName = user
	c, err := client.New(cfg, client.Options{Scheme: s.Client.Scheme()})
	if err != nil {
		s.T.Fatal(err)
	}
	return c
}
