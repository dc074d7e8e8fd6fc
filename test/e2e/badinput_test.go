package e2e

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
)

// What is pushed is refused file by file: it is named, nothing that is applied is
// lost, the good files of the same commit are applied, and the next good commit
// heals it, without a restart.
func TestBadPushes(t *testing.T) {
	s := newSystem(t)
	commit := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one"), "b.yaml": osp("osp-b", "v1.0.0", "echo one")})
	s.source()
	s.start()
	s.ready(commit)
	s.pool("pool-a", "osp-a")
	s.served("pool-a", "v1.0.0")

	for i, c := range []struct {
		name string
		file string
		says []string
	}{
		{"broken YAML", "spec: [\n", []string{"profiles/a.yaml:1: is no YAML"}},
		{"a template that does not parse", osp("osp-a", "v1.1.0", "echo {{ if .HTTPProxy }}"), []string{"profiles/a.yaml:30: spec.provisioningConfig.files[0]", "write the {{ end }} that is missing above"}},
		{"a field of the template data that does not exist", osp("osp-a", "v1.1.0", "echo {{ .KubeletVersion }}"), []string{"profiles/a.yaml:29: spec.provisioningConfig.files[0]", "KubeletVersion"}},
		{"a function that is not allowed", osp("osp-a", "v1.1.0", `echo {{ env "HOME" }}`), []string{"profiles/a.yaml:29: spec.provisioningConfig.files[0]", "env"}},
		{"a field of the profile that does not exist", strings.Replace(osp("osp-a", "v1.1.0", "echo"), "osVersion", "osVersoin", 1), []string{`profiles/a.yaml:7: spec.osVersoin: is no field of spec: did you mean "osVersion"?`}},
		{"content changed, version not", osp("osp-a", "v1.0.0", "echo two"), []string{"profiles/a.yaml:8: spec.version", "its version is still v1.0.0", "stands for the content of " + commit[:12], "give it a new version"}},
	} {
		s.run(c.name, func(t *testing.T) {
			good := "v1." + string(rune('1'+i)) + ".0"
			before, _, err := s.secrets("pool-a")
			if err != nil {
				t.Fatal(err)
			}
			bad := s.git.push(map[string]string{"a.yaml": c.file, "b.yaml": osp("osp-b", good, "echo "+c.name)})
			cond := s.refused(api.ReasonProfilesInvalid, append(c.says, "(commit "+bad[:12]+")")...)
			t.Logf("the user reads:\n%s", cond.Message)
			ps := s.profileSource()
			if !apimeta.IsStatusConditionTrue(ps.Status.Conditions, "Stalled") || apimeta.FindStatusCondition(ps.Status.Conditions, "Reconciling") != nil {
				t.Errorf("conditions are %+v", ps.Status.Conditions)
			}
			if want := map[string]string{"osp-a": "v1.0.0", "osp-b": good}; !maps.Equal(s.inventory(), want) {
				t.Errorf("inventory is %v, want %v", s.inventory(), want)
			}
			if strings.HasSuffix(ps.Status.Revision, bad) || !strings.HasSuffix(ps.Status.LastAttemptedRevision, bad) {
				t.Errorf("revision %s, last attempted %s", ps.Status.Revision, ps.Status.LastAttemptedRevision)
			}
			after, _, err := s.secrets("pool-a")
			if err != nil || after.ResourceVersion != before.ResourceVersion {
				t.Errorf("the pool's Secret was touched (err %v)", err)
			}
			s.ready(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")}))
		})
	}
	if notes := s.notes("osps", api.EventProfileRefused); len(notes) < 6 {
		t.Errorf("refusals were told %d times: %q", len(notes), notes)
	}
	// A version that was refused may be mended under its number.
	s.ready(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo good")}))
	s.served("pool-a", "v1.1.0")
}

// A pool that cannot be served is told why, in one event, and is healed by the
// next change of anything it depends on.
func TestBadPools(t *testing.T) {
	s := newSystem(t)
	s.begin(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")}))

	s.run("a profile name that does not exist", func(t *testing.T) {
		s.pool("early", "osp-later")
		s.event("early", api.EventProfileError, `no ProfileSource in namespace "kube-system" offers a profile "osp-later"`, "there are osp-a")
		s.git.push(map[string]string{"later.yaml": osp("osp-later", "v1.0.0", "echo later")})
		s.served("early", "v1.0.0")
		if notes := s.notes("early", api.EventProfileError); len(notes) != 1 {
			t.Errorf("told %d times: %q", len(notes), notes)
		}
	})
	s.run("no providerSpec", func(t *testing.T) {
		s.pool("bare", "osp-a", func(md map[string]any) {
			spec := md["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			delete(spec, "providerSpec")
		})
		s.event("bare", api.EventProfileError, "spec.template.spec.providerSpec")
		s.pool("bare", "osp-a")
		s.served("bare", "v1.0.0")
	})
	s.run("a misspelt field of the providerSpec", func(t *testing.T) {
		s.pool("misspelt", "osp-a", func(md map[string]any) {
			value(md)["operatingSystemm"] = "ubuntu"
		})
		s.event("misspelt", api.EventProfileError, "operatingSystemm")
		s.pool("misspelt", "osp-a")
		s.served("misspelt", "v1.0.0")
	})
	s.run("a provider that the profile does not support", func(t *testing.T) {
		s.pool("elsewhere", "osp-a", func(md map[string]any) { value(md)["cloudProvider"] = "nutanix" })
		s.event("elsewhere", api.EventProfileError, "nutanix", "supportedCloudProviders")
	})
	s.run("a name that collides with another pool's (security.md 25)", func(t *testing.T) {
		// Pool "x" of namespace "<pools>-y" and pool... the contract joins name and
		// namespace with a dash, so "a-<p>" of "q" and "a" of "<p>-q" are the same.
		first := &machines.MachineDeployment{}
		if err := s.get(s.pools, "bare", first); err != nil {
			t.Fatal(err)
		}
		other := "q"
		s.apply(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": s.pools + "-" + other}})
		s.apply(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": other}})
		t.Cleanup(func() {
			for _, name := range []string{other, s.pools + "-" + other} {
				_ = s.client.Delete(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
		})
		s.pool("a-"+s.pools, "osp-a", func(md map[string]any) { md["metadata"].(map[string]any)["namespace"] = other })
		key := types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: "a-" + s.pools + "-" + other + "-bootstrap-config"}
		var secret corev1.Secret
		s.eventually("the first pool's Secret", func() error { return s.client.Get(s.t.Context(), key, &secret) })
		s.pool("a", "osp-a", func(md map[string]any) { md["metadata"].(map[string]any)["namespace"] = s.pools + "-" + other })
		s.eventually("the second pool's event", func() error {
			var list = s.notesIn(s.pools+"-"+other, "a", api.EventNameCollision)
			if len(list) == 1 && strings.Contains(list[0], "MachineDeployment "+other+"/a-"+s.pools+", which has") && strings.Contains(list[0], "MachineDeployment "+s.pools+"-"+other+"/a have") {
				return nil
			}
			return fmt.Errorf("events are %q", list)
		})
		var after corev1.Secret
		if err := s.client.Get(s.t.Context(), key, &after); err != nil || after.ResourceVersion != secret.ResourceVersion {
			t.Errorf("the first pool's Secret was touched (err %v)", err)
		}
	})
}

func value(md map[string]any) map[string]any {
	spec := md["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	return spec["providerSpec"].(map[string]any)["value"].(map[string]any)
}

// A Git server that fails takes nothing away, is named with its cause, and is
// forgiven as soon as it answers.
func TestBadServer(t *testing.T) {
	s := newSystem(t)
	commit := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	s.begin(commit)
	s.pool("pool-a", "osp-a")
	before, _ := s.served("pool-a", "v1.0.0")

	for _, c := range []struct{ mode, reason, kstatus, says string }{
		{"down", api.ReasonUnreachable, "Reconciling", s.git.url},
		{"500", api.ReasonUnreachable, "Reconciling", "500"},
		{"password", api.ReasonAuthenticationFailed, "Stalled", "401"},
	} {
		s.run(c.mode, func(t *testing.T) {
			s.git.mode.Store(c.mode)
			cond := s.refused(c.reason, c.says)
			t.Logf("the user reads:\n%s", cond.Message)
			ps := s.profileSource()
			if !apimeta.IsStatusConditionTrue(ps.Status.Conditions, c.kstatus) {
				t.Errorf("conditions are %+v", ps.Status.Conditions)
			}
			if s.inventory()["osp-a"] != "v1.0.0" || !strings.HasSuffix(ps.Status.Revision, commit) {
				t.Errorf("status is %+v", ps.Status)
			}
			s.git.mode.Store("")
			s.ready(commit)
		})
	}
	s.run("a password that is given heals it", func(t *testing.T) {
		s.git.mode.Store("password")
		s.refused(api.ReasonAuthenticationFailed)
		s.source(func(spec map[string]any) {
			spec["git"].(map[string]any)["secretRef"] = map[string]any{"name": "git-credentials"}
		})
		s.refused("DependencyNotReady", "Secret kube-system/git-credentials does not exist: create it with the keys username and password")
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "git-credentials"},
			StringData: map[string]string{"username": "reader", "password": "wrong-c4nary"},
		}
		if err := s.client.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		s.refused(api.ReasonAuthenticationFailed)
		patch := client.MergeFrom(secret.DeepCopy())
		secret.StringData = map[string]string{"password": "right"}
		if err := s.client.Patch(t.Context(), secret, patch); err != nil {
			t.Fatal(err)
		}
		s.ready(commit)
		s.logMu.Lock()
		defer s.logMu.Unlock()
		if strings.Contains(s.log.String(), "c4nary") { // security.md 14
			t.Error("the log holds a password")
		}
		for _, reason := range []string{api.EventSourceFailed} {
			if strings.Contains(strings.Join(s.notes("osps", reason), "\n"), "c4nary") {
				t.Error("an event holds a password")
			}
		}
	})
	after, _, err := s.secrets("pool-a")
	if err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the pool's Secret was touched (err %v)", err)
	}
}
