package nodescripts_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/nodefixture"
)

// accountName is the account of a pool, and the name of its BootReport.
const accountName = "node-web-0123456789abcdef"

// boundToken has the shape of a token that the API server issues for an account.
var boundToken = strings.Join([]string{
	base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"x"}`)),
	base64.RawURLEncoding.EncodeToString([]byte(`{"aud":["https://kubernetes.default.svc"],"iss":"https://node-1.test","kubernetes.io":{"namespace":"cloud-init-settings"},` +
		`"sub":"system:serviceaccount:cloud-init-settings:` + accountName + `"}`)),
	"c2lnbmF0dXJlLW9mLXRoZS10b2tlbg",
}, ".")

func reporting(s *scenario) { s.token = boundToken }

// reportingNode is a node that has booted and can report. The cases of a test share it: each makes it forget
// what another reported, see newCase.
func reportingNode(t *testing.T) *rehearsal {
	t.Helper()
	r := rehearse(t, scenarios[0].with(reporting))
	r.up()
	r.onCall = nil
	return r
}

// newCase forgets the reports and attempts of other cases, and has failures reported by this one.
func (r *rehearsal) newCase(t *testing.T) {
	whole := r.t
	r.t = t
	t.Cleanup(func() { r.t = whole })
	r.cloud.reports, r.sleeps = nil, nil
	for _, path := range []string{"/root/attempts", "/var/log/boot-reports"} {
		r.must(os.RemoveAll(r.path(path)))
	}
}

// replace replaces a text of a script, which must be there, until what it returns is called.
func (r *rehearsal) replace(path, old, new string) (undo func()) {
	r.t.Helper()
	text := r.read(path)
	if !strings.Contains(text, old) {
		r.t.Fatalf("%s has no %q", path, old)
	}
	r.write(path, strings.ReplaceAll(text, old, new), 0o755)
	return func() { r.write(path, text, 0o755) }
}

// entries are those of one report, which the schema must accept.
func (r *rehearsal) entries(report string) map[api.BootStage]api.MachineBoot {
	r.t.Helper()
	var b api.BootReport
	if err := yaml.UnmarshalStrict([]byte(report), &b); err != nil || b.Kind != "BootReport" || b.APIVersion != api.GroupVersion.String() {
		r.t.Errorf("a report is not one: %v: %q", err, report)
	}
	all := map[api.BootStage]api.MachineBoot{}
	for _, m := range b.Spec.Machines {
		if m.Machine != machineName || m.Attempt < 1 || m.Config != render.ShortDigest(r.input.InputDigest()) || !bootID.MatchString(m.BootID) || len(m.File) > 256 ||
			!nodeFile.MatchString(m.File) || m.Line < 0 || len(m.Command) > 512 || len(m.Log) > 4096 || len(m.Time) > 32 || unprintable.MatchString(m.Command+m.Log) {
			r.t.Errorf("an entry is outside of the schema's bounds: %+v", m)
		}
		all[m.Stage] = m
	}
	for _, secret := range r.secrets {
		if strings.Contains(report, secret) {
			r.t.Errorf("a report holds the credential %q: %s", secret, report)
		}
	}
	return all
}

var (
	nodeFile    = regexp.MustCompile(`^(/[A-Za-z0-9._@+*-]+)*$`)
	bootID      = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	unprintable = regexp.MustCompile(`[^\n -~]`)
)

// at returns the lines of a node's script at which an entry says that a command has failed: bash
// gives one of the lines of a command.
func (r *rehearsal) at(m api.MachineBoot) string {
	r.t.Helper()
	lines := strings.Split(r.read(m.File), "\n")
	if m.Line < 1 || int(m.Line) > len(lines) {
		r.t.Errorf("%s has no line %d", m.File, m.Line)
		return ""
	}
	return strings.Join(lines[max(0, m.Line-3):m.Line], "\n")
}

// TestReports: every stage that fails says at which line, and that it has succeeded in the end.
func TestReports(t *testing.T) {
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			r := rehearse(t, s.with(reporting))
			type expected struct {
				stage   api.BootStage
				outcome api.BootOutcome
				line    string
			}
			r.cloud.faults.Add(nodefixture.Fault{On: r.secret, Times: 1, Handler: nodefixture.Says(http.StatusNotFound, "no\n")})
			r.cloud.faults.Add(nodefixture.Fault{On: "/kubelet", Times: 1, Handler: nodefixture.Says(http.StatusForbidden, "no\n")})
			r.cloud.faults.Add(nodefixture.Fault{On: r.kubeconfig, Times: 1, Handler: nodefixture.Says(http.StatusForbidden, "no\n")})
			r.machine.unsigned = 1
			want := []expected{
				{"Bootstrap", "Failing", "/opt/bin/fetch-secret web-"}, {"Bootstrap", "Succeeded", ""}, {"Setup", "Failing", "  curl --fail "},
				{"Setup", "Failing", "/opt/bin/fetch-secret kube-system-web-"}, {"Join", "Failing", "[[ -s " + clientCertificate}, {"Join", "Succeeded", ""},
			}
			if s.profile == "osp-flatcar-cloud-init" { // only the bootstrap stage's script, and each new cause
				want = []expected{
					{"Bootstrap", "Failing", "  curl --fail "}, {"Bootstrap", "Failing", "/opt/bin/fetch-secret web-"},
					{"Bootstrap", "Failing", "/opt/bin/fetch-secret kube-system-web-"}, {"Bootstrap", "Failing", "[[ -s " + clientCertificate},
				}
			}
			r.up()
			r.finished()
			if len(r.cloud.reports) != len(want) {
				t.Fatalf("%d reports were sent, want %d:\n%s", len(r.cloud.reports), len(want), strings.Join(r.cloud.reports, "\n"))
			}
			for i, w := range want {
				all := r.entries(r.cloud.reports[i])
				got := all[w.stage]
				if got.Outcome != w.outcome {
					t.Errorf("report %d has %+v, want that %s is %s", i, got, w.stage, w.outcome)
				}
				if w.line != "" && !strings.Contains(r.at(got), w.line) {
					t.Errorf("report %d is about %s:%d, %q, want %q", i, got.File, got.Line, r.at(got), w.line)
				}
				if w.line != "" && w.stage != "Bootstrap" && (got.Command == "" || got.Log == "" || got.ExitStatus == 0) {
					t.Errorf("report %d lacks something: %+v", i, got)
				}
				if w.stage == "Join" && all["Setup"].Outcome != "Succeeded" {
					t.Errorf("report %d has %+v, want that Setup has succeeded", i, all["Setup"])
				}
			}
		})
	}
}

// TestNoReports: a healthy boot sends nothing, nor does a node with the token that all pools share.
func TestNoReports(t *testing.T) {
	for name, change := range map[string]func(*rehearsal){
		"healthy": func(*rehearsal) {},
		"shared": func(r *rehearsal) {
			for _, on := range []string{r.secret, r.kubeconfig} {
				r.cloud.faults.Add(nodefixture.Fault{On: on, Times: 2, Handler: nodefixture.Says(http.StatusNotFound, "no\n")})
			}
		},
	} {
		for _, s := range booted() {
			t.Run(name+" "+s.profile, func(t *testing.T) {
				parallel(t)
				if name == "healthy" {
					s = s.with(reporting)
				}
				r := rehearse(t, s)
				change(r)
				r.up()
				r.finished()
				if len(r.cloud.reports) > 0 {
					t.Errorf("reports were sent:\n%s", strings.Join(r.cloud.reports, "\n"))
				}
			})
		}
	}
}

// TestReportsUnwanted: however the API server answers a report, the node comes up.
func TestReportsUnwanted(t *testing.T) {
	for name, answer := range map[string]nodefixture.FaultyHandler{
		"403": nodefixture.Says(http.StatusForbidden, "no\n"), "404": nodefixture.Says(http.StatusNotFound, "no\n"), "hangs": stalls,
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			r := rehearse(t, scenarios[0].with(reporting))
			r.cloud.faults.Add(nodefixture.Fault{On: "/bootreports/" + accountName, Times: 4, Handler: answer})
			r.cloud.faults.Add(nodefixture.Fault{On: r.secret, Times: 1, Handler: nodefixture.Says(http.StatusNotFound, "no\n")})
			r.cloud.faults.Add(nodefixture.Fault{On: r.kubeconfig, Times: 1, Handler: nodefixture.Says(http.StatusNotFound, "no\n")})
			r.up()
			r.finished()
			if len(r.sleeps) != 2 || len(r.cloud.reports) != 4 {
				t.Errorf("%d attempts have failed and %d reports were sent, want 2 and 4", len(r.sleeps), len(r.cloud.reports))
			}
		})
	}
}

// canaries are credentials in every place where a profile has one.
var canaries = []string{
	"canary-proxy-pa55", "canary-mirror%2Fpa55", "canary-mirror/pa55", "canary-cloud, pa55=x", "canary-registry-pa55", "canary-hub-pa55", "canary-rhel-user", "canary-rhel-pa55",
	"canary-rhel-organization", "canary-rhel-key", "canary-rhel-offline",
}

// babbling prints all that there is, and worse, and fails three times.
const babbling = `#!/bin/bash
set -euo pipefail
cat /etc/osm-gitops/* /etc/kubernetes/bootstrap-kubelet.conf /etc/kubernetes/cloud-config /etc/containerd/config.toml /opt/bin/setup /etc/environment
env
for word in %s; do
  printf 'a\x01%%s\033[31m\xff\xfe"\\{{ .Token }}<script>\t%%s\n' "$word" "http://node:$word@mirror.test/"
  curl --header "Authorization: Basic $word" http://localhost:1 || true
done
echo x >>/root/attempts
if (($(wc -l </root/attempts) < 4)); then
  grep "nothing, said \"$1\" \\ $(head -c 2000 /dev/zero | tr '\0' x)" \
    /dev/null
fi
`

// TestReportsKeepSecrets: whatever a script prints, a report is valid JSON without credentials.
func TestReportsKeepSecrets(t *testing.T) {
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			r := rehearse(t, s.with(func(s *scenario) {
				reporting(s)
				s.settings = func(s *render.Settings) {
					s.NodeHTTPProxy, s.NodeNoProxy = "http://node:"+canaries[0]+"@"+proxyHost+":"+proxyPort, apiHost+","+mirrorHost
					s.DownloadMirrors = map[string]string{"kubernetes": "https://node:" + canaries[1] + "@" + mirrorHost + "/dl.k8s.io"}
					s.NodeRegistryMirrors = "https://node:" + canaries[5] + "@hub.test"
					s.RegistryCredentials = map[string]render.RegistryCredential{"registry.test": {Username: "node", Password: canaries[4]}}
				}
				s.pool = func(p *render.Pool) {
					config := "[Global]\nusername = \"node\"\npassword = \"" + canaries[3] + "\"\n"
					p.OverwriteCloudConfig = &config
					if p.OperatingSystemSpec.RHEL != nil {
						p.OperatingSystemSpec.RHEL = &render.RHELSpec{
							RHELSubscriptionManagerUser: canaries[6], RHELSubscriptionManagerPassword: canaries[7], RHELOrganizationName: canaries[8],
							RHELActivationKey: canaries[9], RHSMOfflineToken: canaries[10],
						}
					}
				}
			}))
			r.cloud.proxy()
			r.up()
			r.onCall = nil // which would find what the script below does
			told := canaries[:6]
			if s.profile == "osp-rhel" {
				told = canaries[:10] // the offline token stays in the cluster
			}
			r.secrets = append(r.secrets, canaries...)
			quoted := make([]string, len(told))
			for i, c := range told {
				quoted[i] = "'" + c + "'"
			}
			r.write("/opt/bin/babbling", fmt.Sprintf(babbling, strings.Join(quoted, " ")), 0o755)
			supervise := "/opt/bin/supervise-setup.sh"
			only := s.profile == "osp-flatcar-cloud-init" // without command and log
			if only {
				supervise = "/opt/bin/supervise.sh"
			}
			if got := r.run(nil, supervise, "/opt/bin/babbling", boundToken); got.status != 0 {
				t.Fatalf("it ends with %d: %s", got.status, got.output)
			}
			if only {
				if len(r.cloud.reports) != 1 || !strings.Contains(r.at(r.entries(r.cloud.reports[0])["Bootstrap"]), `grep "nothing`) {
					t.Errorf("these reports were sent: %q", r.cloud.reports)
				}
				return
			}
			if len(r.cloud.reports) != 2 {
				t.Fatalf("%d reports were sent, want one of the failures and one of the success", len(r.cloud.reports))
			}
			failing, succeeded := r.entries(r.cloud.reports[0])["Setup"], r.entries(r.cloud.reports[1])["Setup"]
			if !strings.Contains(r.at(failing), `grep "nothing`) || !strings.HasPrefix(failing.Command, `grep "nothing, said \"$1\" \\ $(head`) || failing.ExitStatus != 1 {
				t.Errorf("the failure is %+v", failing)
			}
			if !slices.Contains(strings.Split(failing.Log, "\n"), "") && !strings.Contains(failing.Log, `"\{{ .Token }}<script>`) {
				t.Errorf("the log lacks what is no credential: %q", failing.Log)
			}
			if succeeded.Outcome != "Succeeded" || succeeded.Attempt != 3 || succeeded.Log != "" {
				t.Errorf("the success is %+v", succeeded)
			}
		})
	}
}

// TestReportsKeepStructuredSecrets: values of a cloud configuration in JSON or YAML are removed whole,
// also those of short words, before a comma, in a list, and those that contain another.
func TestReportsKeepStructuredSecrets(t *testing.T) {
	secrets := []string{"pa 55 of, json", "li:st pa 55", "ya:ml pa 55", "in one line", "-tail of it"}
	for name, config := range map[string]string{
		"JSON": `{
  "password": "` + secrets[0] + `",
  "keys": [
    "` + secrets[1] + `",
    "last"
  ],
  "more": ["x", "` + secrets[3] + `"],
  "tenant": {"id": "` + secrets[3] + `", "zone": "none"}
}
`,
		"a user in a credential": "user: canary\napplication: canary" + secrets[4] + "\npassword: another\n", // whose key says nothing
		"YAML":                   "password: '" + secrets[0] + "' \nkeys:\n  - " + secrets[2] + "\n  - \"" + secrets[1] + "\"\nmore: [x, \"" + secrets[3] + "\"]\n",
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			r := rehearse(t, scenarios[0].with(func(s *scenario) {
				reporting(s)
				s.pool = func(p *render.Pool) { p.OverwriteCloudConfig = &config }
			}))
			r.up()
			r.onCall = nil
			r.write("/opt/bin/babbling", "#!/bin/bash\nset -e\ncat /etc/kubernetes/cloud-config\necho x >>/root/attempts\n(($(wc -l </root/attempts) > 1))\n", 0o755)
			for _, secret := range secrets {
				if strings.Contains(config, secret) {
					r.secrets = append(r.secrets, secret)
				}
			}
			if got := r.run(nil, "/opt/bin/supervise-setup.sh", "/opt/bin/babbling"); got.status != 0 {
				t.Fatalf("it ends with %d: %s", got.status, got.output)
			}
			if len(r.cloud.reports) != 2 {
				t.Fatalf("%d reports were sent", len(r.cloud.reports))
			}
			if log := r.entries(r.cloud.reports[0])["Setup"].Log; !strings.Contains(log, "password") || !strings.Contains(log, "***") {
				t.Errorf("the log is %q", log)
			}
		})
	}
}

// TestReportsAfterBootstrap: when the bootstrap stage has failed for long, the first failure of both
// later stages is reported all the same, in six requests of a boot, and its success with them or at the
// end. Reports of an earlier boot do not count.
func TestReportsAfterBootstrap(t *testing.T) {
	const other = "00000000-0000-4000-8000-000000000000\n"
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	type outcomes = map[api.BootStage]api.BootOutcome
	const fails = `#!/bin/bash
set -e
echo x >>/root/attempts
case $(wc -l </root/attempts) in
1) false ;;
2) (exit 3) ;;
3 | 4) [[ -s /none/kubelet-client-current.pem ]] ;;
5) (exit 4) && [[ kubelet-client-current.pem ]] ;;
esac
`
	parallel(t)
	r := reportingNode(t)
	for name, c := range map[string]struct {
		before, script string
		want           []outcomes
	}{
		"twice": {strings.Repeat(string(boot), 2), fails, []outcomes{
			{"Bootstrap": "Succeeded"},
			{"Bootstrap": "Succeeded", "Setup": "Failing"},
			{"Bootstrap": "Succeeded", "Setup": "Succeeded", "Join": "Failing"},
			{"Bootstrap": "Succeeded", "Setup": "Succeeded", "Join": "Succeeded"},
		}},
		"three times": {strings.Repeat(string(boot), 3), fails, []outcomes{
			{"Bootstrap": "Succeeded", "Setup": "Failing"},
			{"Bootstrap": "Succeeded", "Setup": "Succeeded", "Join": "Failing"},
			{"Bootstrap": "Succeeded", "Setup": "Succeeded", "Join": "Succeeded"},
		}},
		"four times": {strings.Repeat(string(boot), 4), fails, []outcomes{
			{"Bootstrap": "Succeeded", "Setup": "Failing"},
			{"Bootstrap": "Succeeded", "Setup": "Succeeded", "Join": "Failing"},
		}},
		"four times, and nothing else": {strings.Repeat(string(boot), 4), "#!/bin/bash\n", []outcomes{{"Bootstrap": "Succeeded"}}},
		"in an earlier boot": {strings.Repeat(other, 6), fails, []outcomes{
			{"Bootstrap": "Succeeded"},
			{"Bootstrap": "Succeeded", "Setup": "Failing"},
			{"Bootstrap": "Succeeded", "Setup": "Failing"}, // of another line
			{"Bootstrap": "Succeeded", "Setup": "Succeeded", "Join": "Failing"},
			{"Bootstrap": "Succeeded", "Setup": "Failing", "Join": "Failing"}, // of a line before that
			{"Bootstrap": "Succeeded", "Setup": "Succeeded", "Join": "Succeeded"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r.newCase(t)
			r.write("/var/log/boot-reports", c.before, 0o644)
			r.write("/opt/bin/fails", c.script, 0o755)
			if got := r.run(nil, "/opt/bin/supervise-setup.sh", "/opt/bin/fails"); got.status != 0 {
				t.Fatalf("it ends with %d: %s", got.status, got.output)
			}
			if len(r.cloud.reports) != len(c.want) {
				t.Fatalf("%d reports were sent, want %d:\n%s", len(r.cloud.reports), len(c.want), strings.Join(r.cloud.reports, "\n"))
			}
			for i, w := range c.want {
				got := outcomes{}
				for stage, m := range r.entries(r.cloud.reports[i]) {
					got[stage] = m.Outcome
				}
				if !maps.Equal(got, w) {
					t.Errorf("report %d has %v, want %v", i, got, w)
				}
			}
		})
	}
}

// TestBootstrapReports: a failure of the bootstrap stage is reported at once, after 1, 4 and 10 minutes
// and when its cause changes, at most four times. What was before the first failure does not count. If
// the clock is set, it is not reported more often.
func TestBootstrapReports(t *testing.T) {
	const begins, failed = "n=0 pause=1", "SECONDS=0"
	parallel(t)
	r := reportingNode(t)
	for name, c := range map[string]struct {
		old, new string
		fails    string
		want     int
	}{
		"the same cause":             {"", "", "false", 1},
		"after a minute":             {failed, "SECONDS=60", "false", 2},
		"after four minutes":         {failed, "SECONDS=240", "false", 3},
		"after ten minutes":          {failed, "SECONDS=600", "false", 4},
		"half an hour in an attempt": {begins, begins + " SECONDS=1800", "false", 1},
		"the clock is set":           {failed, "SECONDS=2000000", "false", 4},
		"the clock goes back":        {failed, "SECONDS=-2000000", "false", 1},
		"another line":               {"", "", "if ((n == 3)); then\n    false\n  fi\n  false", 3},
		"another status":             {"", "", "(exit $((n % 2 + 1)))", 4},
	} {
		t.Run(name, func(t *testing.T) {
			r.newCase(t)
			defer r.replace("/opt/bin/supervise.sh", c.old, c.new)()
			r.write("/opt/bin/fails", "set -e\necho x >>/root/attempts\nn=$(wc -l </root/attempts)\nif ((n < 10)); then\n  "+c.fails+"\nfi\n", 0o755)
			if got := r.run(nil, "/opt/bin/supervise.sh", "/opt/bin/fails"); got.status != 0 {
				t.Fatalf("it ends with %d: %s", got.status, got.output)
			}
			if n := len(r.cloud.reports); n != c.want {
				t.Errorf("%d reports were sent, want %d:\n%s", n, c.want, strings.Join(r.cloud.reports, "\n"))
			}
			for _, report := range r.cloud.reports {
				r.entries(report)
			}
			if n := strings.Count(r.read("/var/log/boot-reports"), "\n"); n != c.want {
				t.Errorf("%d reports are counted, want %d", n, c.want)
			}
		})
	}
}

// TestReportsOnFullDisk: a node whose disk is full says so.
func TestReportsOnFullDisk(t *testing.T) {
	parallel(t)
	r := reportingNode(t)
	// Nothing can be written where the disk is; /run is in memory.
	for _, path := range []string{"/var/log/osm-gitops/cause", "/var/log/osm-gitops/log", "/var/log/osm-gitops/Setup.json", "/var/log/boot-reports"} {
		r.must(os.MkdirAll(r.path(filepath.Dir(path)), 0o755))
		r.must(os.RemoveAll(r.path(path)))
		r.must(os.Symlink("/dev/full", r.path(path)))
	}
	r.write("/opt/bin/fails", "#!/bin/bash\nset -e\necho x >>/root/attempts\nif (($(wc -l </root/attempts) < 2)); then\n  echo downloaded >/dev/full\nfi\n", 0o755)
	if got := r.run(nil, "/opt/bin/supervise-setup.sh", "/opt/bin/fails"); got.status != 0 {
		t.Fatalf("it ends with %d: %s", got.status, got.output)
	}
	if len(r.cloud.reports) != 2 {
		t.Fatalf("%d reports were sent, want one of the failure and one of the success:\n%s", len(r.cloud.reports), strings.Join(r.cloud.reports, "\n"))
	}
	if got := r.entries(r.cloud.reports[0])["Setup"]; got.File != "/opt/bin/fails" || got.Line != 5 || !strings.Contains(got.Log, "No space left on device") {
		t.Errorf("the failure is %+v", got)
	}
}

// TestReportsOfOtherCommands: what bash has no file or line of.
func TestReportsOfOtherCommands(t *testing.T) {
	const once = "echo x >>/root/attempts; if (($(wc -l </root/attempts) < 2)); then %s; fi"
	script := func(command string) []string {
		return []string{"/opt/bin/x", "#!/bin/bash\nset -eu\n" + fmt.Sprintf(once, command) + "\n"}
	}
	parallel(t)
	r := reportingNode(t)
	for name, c := range map[string]struct {
		env, argv []string
		want      api.MachineBoot
	}{
		"a function of the environment": {[]string{"BASH_FUNC_odd%%=() { grep -q x /dev/null; }"}, script("odd"), api.MachineBoot{Command: "grep -q x /dev/null", ExitStatus: 1}},
		"bash -c":                       {nil, []string{"bash", "-euc", fmt.Sprintf(once, "grep -q y /dev/null")}, api.MachineBoot{Command: "grep -q y /dev/null", ExitStatus: 1}},
		"exit":                          {nil, script("echo one; echo 'setup: no token=x disk' >&2; exit 3"), api.MachineBoot{File: "/opt/bin/x", Command: "exit after: setup: no token= ***", ExitStatus: 3}},
		"exit without a word":           {nil, script("exit 4"), api.MachineBoot{File: "/opt/bin/x", ExitStatus: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			r.newCase(t)
			argv := c.argv
			if argv[0] == "/opt/bin/x" {
				r.write(argv[0], argv[1], 0o755)
				argv = argv[:1]
			}
			if got := r.run(c.env, append([]string{"/opt/bin/supervise-setup.sh"}, argv...)...); got.status != 0 || strings.Contains(got.output, "unbound") {
				t.Fatalf("it ends with %d: %s", got.status, got.output)
			}
			if len(r.cloud.reports) != 2 {
				t.Fatalf("%d reports were sent:\n%s", len(r.cloud.reports), strings.Join(r.cloud.reports, "\n"))
			}
			got := r.entries(r.cloud.reports[0])["Setup"]
			if got.File != c.want.File || got.Line != 0 || got.Command != c.want.Command || got.ExitStatus != c.want.ExitStatus {
				t.Errorf("the failure is %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestReportsAreFew: a failure that lasts is reported four times, and so are causes that change, so
// that a failure of the next stage and the success can still be. A minute is a second here. If the
// clock is set while a script fails, the next attempts follow all the same.
func TestReportsAreFew(t *testing.T) {
	const original, faster = "start=$SECONDS due=(0 60 240 600)", "start=$SECONDS due=(0 1 2 3)"
	parallel(t)
	r := reportingNode(t)
	for name, c := range map[string]struct {
		schedule    string
		fails       string
		least, most int
	}{
		"the same cause":  {faster, "false", 2, 4}, // an attempt can take longer than what is between two
		"many causes":     {faster, `bash -c "exit $(($(wc -l </root/attempts) % 100 + 1))"`, 4, 4},
		"weeks in a step": {"start=$((SECONDS - 2000000)) due=(0 60 240 600)", "false", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r.newCase(t)
			defer r.replace("/opt/bin/supervise-setup.sh", original, c.schedule)()
			r.write("/opt/bin/fails", "#!/bin/bash\nset -e\necho x >>/root/attempts\nif (($(wc -l </root/attempts) < 20)); then\n  read -r -t 0.3 <> <(:) || true\n  "+c.fails+"\nfi\n", 0o755)
			if got := r.run(nil, "/opt/bin/supervise-setup.sh", "/opt/bin/fails"); got.status != 0 {
				t.Fatalf("it ends with %d: %s", got.status, got.output)
			}
			if n := len(r.cloud.reports) - 1; n < c.least || n > c.most {
				t.Errorf("%d reports were sent before the last, want %d to %d:\n%s", n, c.least, c.most, strings.Join(r.cloud.reports, "\n"))
			}
		})
	}
}
