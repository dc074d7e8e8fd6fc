package permissions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every rule that deploy/ gives the controller says why. security.md 30
func TestEveryRuleHasAReason(t *testing.T) {
	for file, least := range map[string]int{
		"rbac.yaml": 25, "webhook.yaml": 1, "two-clusters/management.yaml": 10, "two-clusters/worker.yaml": 10, "dry-run.yaml": 15, "observe.yaml": 3,
		"two-clusters/dry-run-management.yaml": 7, "two-clusters/dry-run-worker.yaml": 10, "appliers.yaml": 4, "cross-namespace-profiles.yaml": 2, "cloud-init-settings.yaml": 1,
		"cloud-provider-values.yaml": 1, "ui.yaml": 1, "kkp/seed.yaml": 6,
	} {
		rules, err := Read(filepath.Join("../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		if len(rules) < least {
			t.Errorf("%s has %d rules, of which this test knows %d", file, len(rules), least)
		}
		for _, r := range rules {
			if r.Reason == "" {
				t.Errorf("%s:%d: nobody says why: write a comment above the rule on %q", file, r.Line, r.Resources)
			}
			for _, what := range append(append([]string{}, r.Verbs...), append(r.Resources, r.Groups...)...) {
				if what == "*" || what == "escalate" || what == "impersonate" {
					t.Errorf("%s:%d: %q is more than a reader can check", file, r.Line, what)
				}
			}
		}
	}
}

// Outside of the controller's own namespace it reads no Secrets but those that nodes boot from, and in no
// cluster those of all namespaces: the ones of the system, where bootstrap tokens are, and of
// cloud-init-settings. security.md 30
func TestSecretsOnlyWhereNeeded(t *testing.T) {
	for file, want := range map[string]string{
		"rbac.yaml": "cloud-init-settings kube-system", "two-clusters/management.yaml": "kube-system", "two-clusters/worker.yaml": "cloud-init-settings kube-system", "webhook.yaml": "",
		"dry-run.yaml": "cloud-init-settings kube-system", "two-clusters/dry-run-management.yaml": "kube-system", "two-clusters/dry-run-worker.yaml": "cloud-init-settings kube-system",
		"observe.yaml": "", "appliers.yaml": "", "cross-namespace-profiles.yaml": "", "kkp/seed.yaml": "",
	} {
		rules, err := Read(filepath.Join("../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		namespaces := map[string]bool{}
		for _, r := range rules {
			for _, right := range r.Rights() {
				if right.Group == "" && right.Resource == "secrets" {
					namespaces[right.Namespace] = true
				}
			}
		}
		wanted := map[string]bool{}
		for _, ns := range strings.Fields(want) {
			wanted[ns] = true
		}
		if diff := cmp.Diff(wanted, namespaces); diff != "" {
			t.Errorf("%s: Secrets are for (-want +got):\n%s", file, diff)
		}
	}
}

const role = `# The whole file.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: x, namespace: a}
rules:
# Read,
# and written.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [one]
  verbs: [get, update]
# Kept.
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get]
---
# Of all nodes.
kind: ClusterRole
metadata: {name: x}
rules:
- apiGroups: [""]
  resources: [nodes]
  verbs: [list]
`

const log = `{"verb":"get","user":{"username":"me"},"objectRef":{"resource":"secrets","namespace":"a","name":"one"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"update","user":{"username":"me"},"objectRef":{"resource":"secrets","namespace":"b","name":"one"},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"verb":"update","user":{"username":"else"},"objectRef":{"resource":"secrets","namespace":"a","name":"one"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"list","user":{"username":"me"},"objectRef":{"resource":"nodes"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"get","user":{"username":"me"},"requestURI":"/version"}
{"verb":"create","user":{"username":"me"},"objectRef":{"resource":"secrets","namespace":"a","name":"two"},"responseStatus":{"code":403,"message":"secrets \"two\" is forbidden: ValidatingAdmissionPolicy 'osm-gitops-controller' with binding 'osm-gitops-controller' denied request: no"},"annotations":{"authorization.k8s.io/decision":"allow"}}
`

func TestUnused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "role.yaml")
	if err := os.WriteFile(path, []byte(role), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, r := range rules {
		reasons = append(reasons, r.Reason)
	}
	if diff := cmp.Diff([]string{"Read, and written.", "Kept.", "Of all nodes."}, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	requests, err := Requests(strings.NewReader(log), "me")
	if err != nil {
		t.Fatal(err)
	}
	if len(requests) != 4 || requests[Request{Verb: "create", Resource: "secrets", Namespace: "a", Name: "two", Denied: true}] != 1 || requests[Request{Verb: "update", Resource: "secrets", Namespace: "b", Name: "one", Forbidden: true}] != 1 {
		t.Errorf("requests are %v", requests)
	}
	var unused []string
	for _, r := range Unused(rules, requests) {
		unused = append(unused, r.String())
	}
	if diff := cmp.Diff([]string{"update secrets one in a", "get controllerrevisions.apps in a"}, unused); diff != "" {
		t.Errorf("unused (-want +got):\n%s", diff)
	}
	for q := range requests {
		if got := Allowed(rules, q); !q.Denied && got == q.Forbidden {
			t.Errorf("%s is allowed: %v", q, got)
		}
	}
	if _, err := Requests(strings.NewReader("nonsense"), "me"); err == nil {
		t.Error("a line that is no JSON is passed over")
	}
}
