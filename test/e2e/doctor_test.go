package e2e

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
)

// patient is a system whose doctor is asked again and again.
type patient struct {
	*system

	said []doctor.Finding // all of it, for docs/troubleshooting.md
	all  strings.Builder  // whatever was printed
}

// doctor examines a system with the rights of an administrator, unless flags say
// otherwise.
func (p *patient) doctor(flags ...string) (status int, report doctor.Report) {
	p.t.Helper()
	status, out, errs := p.runs(append([]string{"doctor", "--kubeconfig", p.cluster.Kubeconfig, "-o", "json"}, flags...)...)
	p.all.WriteString(out + errs)
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		p.t.Fatalf("doctor: status %d, %v: %s%s", status, err, errs, out)
	}
	if want := min(1, report.Problems+report.Unknown); status != want {
		p.t.Errorf("%d problems and %d unknown, and the status is %d", report.Problems, report.Unknown, status)
	}
	p.said = append(p.said, report.Findings...)
	return status, report
}

// finds wants a finding of a check, and nothing else that is worse than a note.
func (p *patient) finds(level doctor.Level, check, says string, flags ...string) {
	p.t.Helper()
	for _, f := range p.among(level, check, says, flags...) {
		if f.Level != doctor.OK && f.Level != doctor.Note && f.Check != check {
			p.t.Errorf("it finds as well: %+v", f)
		}
	}
}

// among wants a finding of a check, among others.
func (p *patient) among(level doctor.Level, check, says string, flags ...string) []doctor.Finding {
	p.t.Helper()
	_, report := p.doctor(flags...)
	found := false
	for _, f := range report.Findings {
		if f.Check != check || f.Level != level || !strings.Contains(f.Found, says) {
			continue
		}
		found = true
		if level != doctor.OK && f.Do == "" {
			p.t.Errorf("%q: it does not say what to do", f.Found)
		}
	}
	if !found {
		p.t.Errorf("there is no %s of %s that says %q:\n%+v", level, check, says, report.Findings)
	}
	return report.Findings
}

// healthy wants nothing that anybody has to do something about.
func (p *patient) healthy(flags ...string) {
	p.t.Helper()
	status, report := p.doctor(flags...)
	for _, f := range report.Findings {
		if f.Level != doctor.OK && f.Level != doctor.Note {
			p.t.Errorf("it is well, and this is found: %+v", f)
		}
	}
	if status != 0 || len(report.Findings) < 9 {
		p.t.Errorf("status %d, %d findings", status, len(report.Findings))
	}
}

// Of an installation that is well nothing is found; of each fault that is made, what it
// is and what to do, and nothing else. docs/troubleshooting.md has all of it. The control
// plane is its own: it loses kinds and policies on the way.
func TestDoctor(t *testing.T) {
	p := &patient{system: newSystemOn(t, cluster.Start(t, cluster.Options{Audit: true}))}
	first := p.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	p.source()
	flags := []string{"--leader-elect=true", "--disable-default-osps", "--cloud-provider-references=kube-system/allowed"}
	p.start(flags...)
	p.ready(first)
	p.pool("web", "osp-a")
	p.served("web", "v1.0.0")
	p.eventually("the lease to be held", func() error { return p.holds() })
	p.healthy()
	p.asShown()

	p.run("sources", func(*testing.T) { p.brokenSources(first) })
	p.run("pools", func(*testing.T) { p.brokenPools() })
	p.run("references", p.references)
	p.run("rights", func(*testing.T) { p.brokenRights() })
	p.run("controller policy", func(*testing.T) { p.brokenControllerPolicy() })
	p.run("namespace", func(*testing.T) { p.otherNamespace() })
	p.run("policies", func(*testing.T) { p.brokenPolicies() })
	p.run("git", func(*testing.T) { p.fromHere() })
	p.run("settings", func(*testing.T) { p.doubtfulSettings(flags) })
	p.pool("next", "osp-a")
	p.served("next", "v1.0.0")
	p.healthy()
	p.stop()
	p.run("lease", func(*testing.T) { p.brokenLease() })
	// From here on the lease counts as held, for nobody must put back what is broken.
	p.held()
	p.healthy()
	p.run("cluster-info", func(*testing.T) { p.brokenClusterInfo() })
	p.run("webhooks", func(*testing.T) { p.brokenWebhooks() })
	p.run("tokens", func(*testing.T) { p.brokenTokens() })
	p.run("kinds", func(*testing.T) { p.brokenKinds() })
	p.run("clocks", func(t *testing.T) { p.brokenClocks(t) })
	p.run("few rights, and no cluster", func(t *testing.T) { p.withFewRights(t) })
	p.deleteLease(mainLease)

	p.noSecret()
	p.asThePageSays()
}

// asShown wants the lines that docs/doctor.md shows.
func (p *patient) asShown() {
	p.t.Helper()
	status, out, errs := p.runs("doctor", "--kubeconfig", p.cluster.Kubeconfig)
	page, err := os.ReadFile(repoPath("docs/doctor.md"))
	p.must(err)
	_, session, _ := strings.Cut(string(page), "```\n$ osm-gitops doctor\n")
	session, _, _ = strings.Cut(session, "```\n")
	lines := strings.SplitAfter(session, "\n")
	for _, line := range lines {
		if !strings.Contains(out, line) {
			p.t.Errorf("it does not print %q:\n%s", line, out)
		}
	}
	if len(lines) < 10 {
		p.t.Errorf("the page has %d lines", len(lines))
	}
	if status != 0 || errs != "" {
		p.t.Errorf("status %d, %q", status, errs)
	}
}

// doubtfulSettings has a flag that can hardly do what was meant until pools have it, and
// takes it back.
func (p *patient) doubtfulSettings(flags []string) {
	for _, doubtful := range []bool{true, false} {
		p.stop()
		if doubtful {
			p.start(append(slices.Clone(flags), "--node-http-proxy=http://canary:canary-p%ssword@proxy.example.com:3128 ")...)
		} else {
			p.start(flags...)
		}
		p.eventually("pools to have the settings", func() error {
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
	p.served("web", "v1.0.0")
}

// noSecret looks for every credential of the cluster in what was printed (security.md 14
// and 15).
func (p *patient) noSecret() {
	p.t.Helper()
	printed, looked := p.all.String(), 0
	var list corev1.SecretList
	p.must(p.client.List(p.t.Context(), &list))
	for _, secret := range list.Items {
		for key, value := range secret.Data {
			public := key == "namespace" || key == "ca.crt" || key == "token-id" || key == "expiration" || key == "description" || strings.HasPrefix(key, "usage-") || key == "auth-extra-groups"
			if public || len(value) < 8 {
				continue
			}
			looked++
			if strings.Contains(printed, string(value)) {
				p.t.Errorf("%s of Secret %s/%s is printed", key, secret.Namespace, secret.Name)
			}
		}
	}
	p.noTokens(printed)
	for _, canary := range canaries {
		if strings.Contains(printed, canary) {
			p.t.Errorf("it prints %s", canary)
		}
	}
	if looked < 5 {
		p.t.Errorf("looked for %d credentials", looked)
	}
}

// canaries are credentials that the test gave away.
var canaries = []string{"canary-password", "canary-known", "canary-p%ssword"}

// asThePageSays compares docs/troubleshooting.md with what was found: each message there
// was printed, and whatever was found is there.
func (p *patient) asThePageSays() {
	p.t.Helper()
	page, err := os.ReadFile(repoPath("docs/troubleshooting.md"))
	if err != nil {
		p.t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ").FindAllSubmatch(page, -1)
	if len(rows) < 30 {
		p.t.Fatalf("found %d messages in the page", len(rows))
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
			p.t.Errorf("the page does not have: %s: %s: %s", f.Level, f.Check, f.Found)
		}
	}
	for i, ok := range told {
		if !ok {
			p.t.Errorf("nothing printed %q", rows[i][1])
		}
	}
}

// withFewRights examines as somebody who may do nothing, and where nobody answers.
func (p *patient) withFewRights(t *testing.T) {
	p.applyYAML(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: nobody, namespace: ` + p.pools + `}}`)
	status, report := p.doctor("--kubeconfig", p.kubeconfigOf(p.pools, "nobody"))
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
	// The controller may ask for itself.
	_, report = p.doctor("--kubeconfig", p.kubeconfigOf(namespace, "osm-gitops"))
	if !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.Check == "rights" && f.Level == doctor.OK }) {
		t.Errorf("it does not know its own rights: %+v", report.Findings)
	}

	path := filepath.Join(t.TempDir(), "away")
	p.must(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: "https://" + freeAddress(t)}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: "canary-known"}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, path))
	p.finds(doctor.Problem, "api-server", "does not answer", "--kubeconfig", path)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"doctor", "-o", "yaml"}, `unknown output "yaml"`},
		{[]string{"doctor", "now"}, `unexpected argument "now"`},
		{[]string{"doctor", "--worker-user", "x"}, "no worker cluster apart"},
		{[]string{"doctor", "--git-allowed-cidrs", "x"}, "is no network"},
	} {
		if status, _, errs := p.runs(c.args...); status != 2 || !strings.Contains(errs, c.says) {
			t.Errorf("%q: status %d: %s", c.args, status, errs)
		}
	}
}

// fromHere reads the repository from the machine of whoever asks.
func (p *patient) fromHere() {
	p.applyYAML(`{apiVersion: v1, kind: Secret, metadata: {name: reader, namespace: kube-system}, stringData: {username: reader, password: canary-password}}`)
	with := []string{"--ask-git", "--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8"}
	p.healthy(with...)
	p.source(gitSpec("secretRef", map[string]any{"name": "reader"}))
	p.git.mode.Store("password")
	p.refused(api.ReasonAuthenticationFailed)
	_, report := p.doctor(with...)
	for _, check := range []string{"sources", "git"} {
		if !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.Check == check && f.Level == doctor.Problem }) {
			p.t.Errorf("%s: %+v", check, report.Findings)
		}
	}
	p.git.mode.Store("")
	p.source()
	p.ready(p.git.run("rev-parse", "HEAD"))
	p.noError(p.client.Delete(p.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"}}))
}

// patch changes an object, and returns how to undo it by another patch.
func (p *patient) patch(obj client.Object, namespace, name, patch string) {
	p.t.Helper()
	obj.SetNamespace(namespace)
	obj.SetName(name)
	p.must(p.client.Patch(p.t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(patch))))
}
