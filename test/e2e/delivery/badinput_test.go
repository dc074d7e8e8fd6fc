package delivery

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// Bad files of a push are rejected one by one: the status names them, applied profiles remain,
// the good files of the same commit are applied, and the next good commit recovers without a
// restart.
func TestBadPushes(t *testing.T) {
	s := newSystem(t)
	commit := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one"), "b.yaml": e2e.OSP("osp-b", "v1.0.0", "echo one")})
	s.Source()
	s.Start()
	s.Ready(commit)
	s.Pool("pool-a", "osp-a")
	s.Served("pool-a", "v1.0.0")

	for i, c := range []struct {
		name string
		file string
		says []string
	}{
		{"broken YAML", "spec: [\n", []string{"profiles/a.yaml:1: invalid YAML"}},
		{"a template that does not parse", e2e.OSP("osp-a", "v1.1.0", "echo {{ if .HTTPProxy }}"), []string{"profiles/a.yaml:30: spec.provisioningConfig.files[0]", "write the {{ end }} that is missing above"}},
		{"a field of the template data that does not exist", e2e.OSP("osp-a", "v1.1.0", "echo {{ .KubeletVersion }}"), []string{"profiles/a.yaml:29: spec.provisioningConfig.files[0]", "KubeletVersion"}},
		{"a function that is not allowed", e2e.OSP("osp-a", "v1.1.0", `echo {{ env "HOME" }}`), []string{"profiles/a.yaml:29: spec.provisioningConfig.files[0]", "env"}},
		{"a field of the profile that does not exist", strings.Replace(e2e.OSP("osp-a", "v1.1.0", "echo"), "osVersion", "osVersoin", 1), []string{`profiles/a.yaml:7: spec.osVersoin: is not a field of spec: did you mean "osVersion"?`}},
		{"content changed, version not", e2e.OSP("osp-a", "v1.0.0", "echo two"), []string{"profiles/a.yaml:8: spec.version", "its version is still v1.0.0", "which has the content of " + commit[:12], "give it a new version"}},
	} {
		s.Run(c.name, func(t *testing.T) {
			good := "v1." + string(rune('1'+i)) + ".0"
			before, _, err := s.Secrets("pool-a")
			if err != nil {
				t.Fatal(err)
			}
			bad := s.Git.Push(map[string]string{"a.yaml": c.file, "b.yaml": e2e.OSP("osp-b", good, "echo "+c.name)})
			cond := s.WaitRejected(api.ReasonProfilesInvalid, append(c.says, "(commit "+bad[:12]+")")...)
			t.Logf("the user reads:\n%s", cond.Message)
			ps := s.ProfileSource()
			if !apimeta.IsStatusConditionTrue(ps.Status.Conditions, "Stalled") || apimeta.FindStatusCondition(ps.Status.Conditions, "Reconciling") != nil {
				t.Errorf("conditions are %+v", ps.Status.Conditions)
			}
			if want := map[string]string{"osp-a": "v1.0.0", "osp-b": good}; !maps.Equal(s.Inventory(), want) {
				t.Errorf("inventory is %v, want %v", s.Inventory(), want)
			}
			if strings.HasSuffix(ps.Status.Revision, bad) || !strings.HasSuffix(ps.Status.LastAttemptedRevision, bad) {
				t.Errorf("revision %s, last attempted %s", ps.Status.Revision, ps.Status.LastAttemptedRevision)
			}
			after, _, err := s.Secrets("pool-a")
			if err != nil || after.ResourceVersion != before.ResourceVersion {
				t.Errorf("the pool's Secret was touched (err %v)", err)
			}
			s.Ready(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")}))
		})
	}
	if notes := s.Events("osps", api.EventProfileRefused); len(notes) < 6 {
		t.Errorf("refusals were told %d times: %q", len(notes), notes)
	}
	// A version that was rejected can be corrected under the same number.
	s.Ready(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo good")}))
	s.Served("pool-a", "v1.1.0")
}

// A pool that cannot be served gets the reason in one event, and recovers with the next change
// of anything that it depends on.
func TestBadPools(t *testing.T) {
	s := newSystem(t)
	s.Begin(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")}))

	s.Run("a profile name that does not exist", func(t *testing.T) {
		s.Pool("early", "osp-later")
		s.Event("early", api.EventProfileError, `no ProfileSource in namespace "kube-system" offers a profile "osp-later"`, "there are osp-a")
		s.Git.Push(map[string]string{"later.yaml": e2e.OSP("osp-later", "v1.0.0", "echo later")})
		s.Served("early", "v1.0.0")
		if notes := s.Events("early", api.EventProfileError); len(notes) != 1 {
			t.Errorf("told %d times: %q", len(notes), notes)
		}
	})
	s.Run("no providerSpec", func(t *testing.T) {
		s.Pool("bare", "osp-a", func(md map[string]any) {
			spec := md["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			delete(spec, "providerSpec")
		})
		s.Event("bare", api.EventProfileError, "spec.template.spec.providerSpec")
		s.Pool("bare", "osp-a")
		s.Served("bare", "v1.0.0")
	})
	s.Run("a misspelt field of the providerSpec", func(t *testing.T) {
		s.Pool("misspelt", "osp-a", func(md map[string]any) {
			e2e.Value(md)["operatingSystemm"] = "ubuntu"
		})
		s.Event("misspelt", api.EventProfileError, "operatingSystemm")
		s.Pool("misspelt", "osp-a")
		s.Served("misspelt", "v1.0.0")
	})
	s.Run("a provider that the profile does not support", func(t *testing.T) {
		s.Pool("elsewhere", "osp-a", func(md map[string]any) { e2e.Value(md)["cloudProvider"] = "nutanix" })
		s.Event("elsewhere", api.EventProfileError, "nutanix", "supportedCloudProviders")
	})
	s.Run("a name that collides with another pool's (security.md 25)", func(t *testing.T) {
		// The name of an object joins the names of pool and namespace with a dash, so "a-<p>" of "q"
		// and "a" of "<p>-q" are the same.
		first := &machines.MachineDeployment{}
		if err := s.Get(s.Pools, "bare", first); err != nil {
			t.Fatal(err)
		}
		other := "q"
		s.Apply(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": s.Pools + "-" + other}})
		s.Apply(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": other}})
		t.Cleanup(func() {
			for _, name := range []string{other, s.Pools + "-" + other} {
				_ = s.Client.Delete(s.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
		})
		s.Pool("a-"+s.Pools, "osp-a", func(md map[string]any) { md["metadata"].(map[string]any)["namespace"] = other })
		key := types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: "a-" + s.Pools + "-" + other + "-bootstrap-config"}
		var secret corev1.Secret
		s.Eventually("the first pool's Secret", func() error { return s.Client.Get(s.T.Context(), key, &secret) })
		s.Pool("a", "osp-a", func(md map[string]any) { md["metadata"].(map[string]any)["namespace"] = s.Pools + "-" + other })
		s.Eventually("the second pool's event", func() error {
			var list = s.EventsIn(s.Pools+"-"+other, "a", api.EventNameCollision)
			if len(list) == 1 && strings.Contains(list[0], "MachineDeployment "+other+"/a-"+s.Pools+", which has") && strings.Contains(list[0], "MachineDeployment "+s.Pools+"-"+other+"/a have") {
				return nil
			}
			return fmt.Errorf("events are %q", list)
		})
		var after corev1.Secret
		if err := s.Client.Get(s.T.Context(), key, &after); err != nil || after.ResourceVersion != secret.ResourceVersion {
			t.Errorf("the first pool's Secret was touched (err %v)", err)
		}
	})
}

// A Git server that fails takes nothing away, is named with its cause, and is
// forgiven as soon as it answers.
func TestBadServer(t *testing.T) {
	s := newSystem(t)
	commit := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Begin(commit)
	s.Pool("pool-a", "osp-a")
	before, _ := s.Served("pool-a", "v1.0.0")

	for _, c := range []struct{ mode, reason, kstatus, says string }{
		{"down", api.ReasonUnreachable, "Reconciling", s.Git.URL},
		{"500", api.ReasonUnreachable, "Reconciling", "500"},
		{"password", api.ReasonAuthenticationFailed, "Stalled", "401"},
	} {
		s.Run(c.mode, func(t *testing.T) {
			s.Git.Mode.Store(c.mode)
			cond := s.WaitRejected(c.reason, c.says)
			t.Logf("the user reads:\n%s", cond.Message)
			ps := s.ProfileSource()
			if !apimeta.IsStatusConditionTrue(ps.Status.Conditions, c.kstatus) {
				t.Errorf("conditions are %+v", ps.Status.Conditions)
			}
			if s.Inventory()["osp-a"] != "v1.0.0" || !strings.HasSuffix(ps.Status.Revision, commit) {
				t.Errorf("status is %+v", ps.Status)
			}
			s.Git.Mode.Store("")
			s.Ready(commit)
		})
	}
	s.Run("a password that is given heals it", func(t *testing.T) {
		s.Git.Mode.Store("password")
		s.WaitRejected(api.ReasonAuthenticationFailed)
		s.Source(func(spec map[string]any) {
			spec["git"].(map[string]any)["secretRef"] = map[string]any{"name": "git-credentials"}
		})
		s.WaitRejected("DependencyNotReady", "Secret kube-system/git-credentials does not exist: create it with the keys username and password")
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "git-credentials"},
			StringData: map[string]string{"username": "reader", "password": "wrong-c4nary"},
		}
		if err := s.Client.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		s.WaitRejected(api.ReasonAuthenticationFailed)
		patch := client.MergeFrom(secret.DeepCopy())
		secret.StringData = map[string]string{"password": "right"}
		if err := s.Client.Patch(t.Context(), secret, patch); err != nil {
			t.Fatal(err)
		}
		s.Ready(commit)
		s.LogMu.Lock()
		defer s.LogMu.Unlock()
		if strings.Contains(s.Log.String(), "c4nary") { // security.md 14
			t.Error("the log holds a password")
		}
		for _, reason := range []string{api.EventSourceFailed} {
			if strings.Contains(strings.Join(s.Events("osps", reason), "\n"), "c4nary") {
				t.Error("an event holds a password")
			}
		}
	})
	after, _, err := s.Secrets("pool-a")
	if err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the pool's Secret was touched (err %v)", err)
	}
}
