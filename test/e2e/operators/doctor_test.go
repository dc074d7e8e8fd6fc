package operators

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/doctor"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// patient is a system whose doctor is asked again and again.
type patient struct {
	*system

	said []doctor.Finding // all of it, for docs/troubleshooting.md
	all  strings.Builder  // everything that was printed
}

// doctor examines a system with the rights of an administrator, unless flags say
// otherwise.
func (p *patient) doctor(flags ...string) (status int, report doctor.Report) {
	p.T.Helper()
	status, out, errs := p.Runs(append([]string{"doctor", "--kubeconfig", p.Cluster.Kubeconfig, "-o", "json"}, flags...)...)
	p.all.WriteString(out + errs)
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		p.T.Fatalf("doctor: status %d, %v: %s%s", status, err, errs, out)
	}
	if want := min(1, report.Problems+report.Unknown); status != want {
		p.T.Errorf("%d problems and %d unknown, and the status is %d", report.Problems, report.Unknown, status)
	}
	p.said = append(p.said, report.Findings...)
	return status, report
}

// finds expects a finding of a check, and no other finding above the level of a note.
func (p *patient) finds(level doctor.Level, check, says string, flags ...string) {
	p.T.Helper()
	for _, f := range p.among(level, check, says, flags...) {
		if f.Level != doctor.OK && f.Level != doctor.Note && f.Check != check {
			p.T.Errorf("it finds as well: %+v", f)
		}
	}
}

// among wants a finding of a check, among others.
func (p *patient) among(level doctor.Level, check, says string, flags ...string) []doctor.Finding {
	p.T.Helper()
	_, report := p.doctor(flags...)
	found := false
	for _, f := range report.Findings {
		if f.Check != check || f.Level != level || !strings.Contains(f.Found, says) {
			continue
		}
		found = true
		if level != doctor.OK && f.Remedy == "" {
			p.T.Errorf("%q: it does not say what to do", f.Found)
		}
	}
	if !found {
		p.T.Errorf("there is no %s of %s that says %q:\n%+v", level, check, says, report.Findings)
	}
	return report.Findings
}

// healthy expects no finding that requires an action.
func (p *patient) healthy(flags ...string) {
	p.T.Helper()
	status, report := p.doctor(flags...)
	for _, f := range report.Findings {
		if f.Level != doctor.OK && f.Level != doctor.Note {
			p.T.Errorf("it is well, and this is found: %+v", f)
		}
	}
	if status != 0 || len(report.Findings) < 9 {
		p.T.Errorf("status %d, %d findings", status, len(report.Findings))
	}
}

// A healthy installation has no findings; each fault that the test injects is reported with its
// cause and remedy, and nothing besides it. docs/troubleshooting.md lists all of them. The
// test has its own control plane, because it removes kinds and policies.
func TestDoctor(t *testing.T) {
	p := &patient{system: &system{e2e.NewSystemOn(t, cluster.Start(t, cluster.Options{Audit: true}))}}
	first := p.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	p.Source()
	flags := []string{"--leader-elect=true", "--disable-default-osps", "--cloud-provider-references=kube-system/allowed"}
	p.Start(flags...)
	p.Ready(first)
	p.Pool("web", "osp-a")
	p.Served("web", "v1.0.0")
	p.Eventually("the lease to be held", func() error { return p.holds() })
	p.healthy()
	p.asShown()

	p.Run("sources", func(*testing.T) { p.brokenSources(first) })
	p.Run("pools", func(*testing.T) { p.brokenPools() })
	p.Run("references", p.references)
	p.Run("rights", func(*testing.T) { p.brokenRights() })
	p.Run("controller policy", func(*testing.T) { p.brokenControllerPolicy() })
	p.Run("namespace", func(*testing.T) { p.otherNamespace() })
	p.Run("successors", func(*testing.T) { p.successors() })
	p.Run("policies", func(*testing.T) { p.brokenPolicies() })
	p.Run("git", func(*testing.T) { p.fromHere() })
	p.Run("settings", func(*testing.T) { p.doubtfulSettings(flags) })
	p.Pool("next", "osp-a")
	p.Served("next", "v1.0.0")
	p.healthy()
	p.Stop()
	p.Run("lease", func(*testing.T) { p.brokenLease() })
	// From here on another holder has the lease, so that no controller repairs the injected faults.
	p.held()
	p.healthy()
	p.Run("cluster-info", func(*testing.T) { p.brokenClusterInfo() })
	p.Run("webhooks", func(*testing.T) { p.brokenWebhooks() })
	p.Run("tokens", func(*testing.T) { p.brokenTokens() })
	p.Run("kinds", func(*testing.T) { p.brokenKinds() })
	p.Run("rotating pool", func(t *testing.T) { p.rotating(t) })
	p.Run("clocks", func(t *testing.T) { p.brokenClocks(t) })
	p.Run("few rights, and no cluster", func(t *testing.T) { p.withFewRights(t) })
	p.Run("before an installation", func(t *testing.T) { p.before(t) })
	p.DeleteLease(e2e.MainLease)

	p.noSecret()
	p.asThePageSays()
}

// asShown wants the lines that docs/doctor.md shows.
func (p *patient) asShown() {
	p.T.Helper()
	status, out, errs := p.Runs("doctor", "--kubeconfig", p.Cluster.Kubeconfig)
	page, err := os.ReadFile(e2e.RepoPath("docs/doctor.md"))
	p.Must(err)
	_, session, _ := strings.Cut(string(page), "```\n$ osm-gitops doctor\n")
	session, _, _ = strings.Cut(session, "```\n")
	lines := strings.SplitAfter(session, "\n")
	for _, line := range lines {
		if !strings.Contains(out, line) {
			p.T.Errorf("it does not print %q:\n%s", line, out)
		}
	}
	if len(lines) < 10 {
		p.T.Errorf("the page has %d lines", len(lines))
	}
	if status != 0 || errs != "" {
		p.T.Errorf("status %d, %q", status, errs)
	}
}

// doubtfulSettings has a flag that can hardly do what was meant until pools have it, and
// takes it back.
func (p *patient) doubtfulSettings(flags []string) {
	for _, doubtful := range []bool{true, false} {
		p.Stop()
		if doubtful {
			p.Start(append(slices.Clone(flags), "--node-http-proxy=http://canary:canary-p%ssword@proxy.example.com:3128 ")...)
		} else {
			p.Start(flags...)
		}
		p.Eventually("pools to have the settings", func() error {
			_, report := p.doctor()
			found := slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.Check == "settings" && f.Level == doctor.Warning })
			if found != doubtful {
				return fmt.Errorf("a setting is doubtful: %t", found)
			}
			return nil
		})
		if doubtful {
			p.finds(doctor.Warning, "settings", `-node-http-proxy "http://(not shown)@proxy.example.com:3128 ", which pools have: its user and password are not percent-encoded`)
		}
	}
	p.Served("web", "v1.0.0")
}

// noSecret looks for every credential of the cluster in what was printed (security.md 14
// and 15).
func (p *patient) noSecret() {
	p.T.Helper()
	printed, looked := p.all.String(), 0
	var list corev1.SecretList
	p.Must(p.Client.List(p.T.Context(), &list))
	for _, secret := range list.Items {
		for key, value := range secret.Data {
			public := key == "namespace" || key == "ca.crt" || key == "token-id" || key == "expiration" || key == "description" || strings.HasPrefix(key, "usage-") || key == "auth-extra-groups"
			if public || len(value) < 8 {
				continue
			}
			looked++
			if strings.Contains(printed, string(value)) {
				p.T.Errorf("%s of Secret %s/%s is printed", key, secret.Namespace, secret.Name)
			}
		}
	}
	p.noTokens(printed)
	for _, canary := range canaries {
		if strings.Contains(printed, canary) {
			p.T.Errorf("it prints %s", canary)
		}
	}
	if looked < 5 {
		p.T.Errorf("looked for %d credentials", looked)
	}
}

// canaries are credentials that the test gave away.
var canaries = []string{"canary-password", "canary-known", "canary-p%ssword"}

// asThePageSays compares docs/troubleshooting.md with the findings: each message of the page was
// printed, and each finding is on the page.
func (p *patient) asThePageSays() {
	p.T.Helper()
	page, err := os.ReadFile(e2e.RepoPath("docs/troubleshooting.md"))
	if err != nil {
		p.T.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ").FindAllSubmatch(page, -1)
	if len(rows) < 30 {
		p.T.Fatalf("found %d messages in the page", len(rows))
	}
	var patterns []*regexp.Regexp
	for _, row := range rows {
		text := strings.ReplaceAll(string(row[1]), `\|`, "|")
		patterns = append(patterns, regexp.MustCompile("(?s)"+strings.ReplaceAll(regexp.QuoteMeta(text), "…", ".*")))
	}
	told := make([]bool, len(patterns))
	for _, f := range p.said {
		if f.Level == doctor.OK {
			continue
		}
		known := false
		for i, pattern := range patterns {
			if pattern.MatchString(f.Check + ": " + f.Found) {
				told[i], known = true, true
			}
		}
		if !known {
			p.T.Errorf("the page does not have: %s: %s: %s", f.Level, f.Check, f.Found)
		}
	}
	for i, ok := range told {
		if !ok {
			p.T.Errorf("nothing printed %q", rows[i][1])
		}
	}
}

// withFewRights examines as a user without rights, and an API server that does not answer.
func (p *patient) withFewRights(t *testing.T) {
	p.ApplyYAML(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: nobody, namespace: ` + p.Pools + `}}`)
	status, report := p.doctor("--kubeconfig", p.KubeconfigOf(p.Pools, "nobody"))
	checks := map[string]bool{}
	for _, f := range report.Findings {
		if f.Level == doctor.Unknown {
			checks[f.Check] = true
		}
	}
	for _, want := range []string{"kinds", "rights", "controller-policy", "lease", "sources", "webhooks", "policies", "pools", "tokens"} {
		if !checks[want] {
			t.Errorf("%s is not unknown: %+v", want, report.Findings)
		}
	}
	if status != 1 || report.Problems != 0 {
		t.Errorf("status %d, %d problems", status, report.Problems)
	}
	// The controller's ServiceAccount is allowed to review its own rights.
	_, report = p.doctor("--kubeconfig", p.KubeconfigOf(e2e.Namespace, "osm-gitops"))
	if !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.Check == "rights" && f.Level == doctor.OK }) {
		t.Errorf("it does not know its own rights: %+v", report.Findings)
	}

	path := filepath.Join(t.TempDir(), "away")
	p.Must(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: "https://" + e2e.FreeAddress(t)}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: "canary-known"}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, path))
	p.finds(doctor.Problem, "api-server", "does not answer", "--kubeconfig", path)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"doctor", "-o", "xml"}, `unknown output "xml"`},
		{[]string{"doctor", "now"}, `unexpected argument "now"`},
		{[]string{"doctor", "--pre", "--ask-git"}, "--pre: there is no controller, worker cluster or ProfileSource yet"},
		{[]string{"doctor", "--worker-user", "x"}, "no separate worker cluster"},
		{[]string{"doctor", "--git-allowed-cidrs", "x"}, "is not a network"},
	} {
		if status, _, errs := p.Runs(c.args...); status != 2 || !strings.Contains(errs, c.says) {
			t.Errorf("%q: status %d: %s", c.args, status, errs)
		}
	}
}

// fromHere reads the repository from the user's machine.
func (p *patient) fromHere() {
	p.ApplyYAML(`{apiVersion: v1, kind: Secret, metadata: {name: reader, namespace: kube-system}, stringData: {username: reader, password: canary-password}}`)
	with := []string{"--ask-git", "--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8"}
	p.healthy(with...)
	p.Source(e2e.GitSpec("secretRef", map[string]any{"name": "reader"}))
	p.Git.Mode.Store("password")
	p.WaitRejected(api.ReasonAuthenticationFailed)
	_, report := p.doctor(with...)
	for _, check := range []string{"sources", "git"} {
		if !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.Check == check && f.Level == doctor.Problem }) {
			p.T.Errorf("%s: %+v", check, report.Findings)
		}
	}
	p.Git.Mode.Store("")
	p.Source()
	p.Ready(p.Git.Run("rev-parse", "HEAD"))
	p.NoError(p.Client.Delete(p.T.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "reader"}}))
}

// patch changes an object, and returns how to undo it by another patch.
func (p *patient) patch(obj client.Object, namespace, name, patch string) {
	p.T.Helper()
	obj.SetNamespace(namespace)
	obj.SetName(name)
	p.Must(p.Client.Patch(p.T.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(patch))))
}
