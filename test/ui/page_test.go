package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/program"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

var update = flag.Bool("update", false, "write the screenshots of docs/images")

// What strangers wrote, which has to stay text.
const (
	hostileAuthor = `<img src=x onerror=alert(1)>` + "\x1b[31m\u202eMallory"
	hostileFile   = "<img src=x onerror=alert(2)>.yaml"
	hostileLine   = `echo "</pre><script>alert(3)</script><a href='javascript:alert(4)'>"`
	hostileID     = `"><script>alert(5)</script>` + "\x1b[2J"
)

// long is more than a page has room for.
var long = strings.Repeat("x", 40_000)

// story makes a fleet grow over several pushes, with a revert, a partly rejected push, and an
// attacker's push. It returns the controller.
func (w *world) story(address string) *testenv.Process {
	version := func(v string, more ...string) []string {
		return append([]string{"version: v1.0.1", "version: " + v}, more...)
	}
	const sysctl, gauge = "vm.overcommit_memory = 1", "fs.inotify.max_user_watches = 1048576"
	w.push("first", ada, "profiles: begin", map[string]string{
		"osp-ubuntu-example.yaml": w.profile("osp-ubuntu-example"), "osp-ubuntu-gpu.yaml": w.profile("osp-ubuntu-gpu"),
		"osp-ubuntu-edge-cache.yaml": w.profile("osp-ubuntu-edge-cache"),
	})
	w.source()
	w.pools("shop-web-eu", "shop-web-us", "shop-cache-fra", "research-batch", "research-gpu-cloud")
	p := w.controller("--ui-address", address)
	says := w.served("shop/web-eu", "v1.0.1")
	w.join("shop/web-eu", says, "aws:///eu-central-1a/i-0a1b2c3d4e5f60718", "web-eu-7c9f4-4kx2p", "web-eu-7c9f4-8wd7n", "web-eu-7c9f4-x2x4k")
	w.join("shop/web-us", w.served("shop/web-us", "v1.0.1"), "", "web-us-5d8b6-q7w2z", "web-us-5d8b6-r9k4t")
	w.join("research/gpu-cloud", w.served("research/gpu-cloud", "v1.0.1"), "", "gpu-cloud-6b4d9-m3n8v")
	w.join("research/batch", nil, "", "batch-58cc7-d5f6g")
	w.suspend("shop/web-us")

	w.push("second", ben, "example: more watches", map[string]string{
		"osp-ubuntu-example.yaml": w.profile("osp-ubuntu-example", version("v1.1.0", gauge, "fs.inotify.max_user_watches = 2097152")...),
	})
	w.join("shop/web-eu", w.served("shop/web-eu", "v1.1.0"), "", "web-eu-7c9f4-b6c7d", "web-eu-7c9f4-h8j9k", "web-eu-7c9f4-p2q3r", "web-eu-7c9f4-t5v6w")
	w.differs("web-eu-7c9f4-h8j9k")
	w.join("research/batch", w.served("research/batch", "v1.1.0"), "", "batch-58cc7-k7m8n")

	other, otherVersion := "osp-hostile", "v6.6.6"
	if *update { // the screenshots are for readers
		other, otherVersion = "osp-ubuntu-registry", "v1.0.0"
	}
	w.hostile("hostile", map[string]string{
		"osp-ubuntu-example.yaml": w.profile("osp-ubuntu-example", version("v1.2.0", sysctl, sysctl+"\n            # <script>alert(6)</script>")...),
		hostileFile:               strings.Replace(w.profile("osp-ubuntu-edge-cache", "name: osp-ubuntu-edge-cache", "name: "+other, "set -euo pipefail", "set -euo pipefail\n            "+hostileLine+"\n            # "+long), "v1.0.1", otherVersion, 1),
	})
	w.join("shop/web-eu", w.served("shop/web-eu", "v1.2.0"), hostileID, "web-eu-7c9f4-z9z9z")
	if !*update {
		w.fails("shop/web-eu", w.served("shop/web-eu", "v1.2.0"), "web-eu-7c9f4-z9z9z-set", "web-eu-7c9f4-f4a1l")
	}

	w.push("refused", ada, "gpu: a mistake", map[string]string{
		"osp-ubuntu-gpu.yaml": w.profile("osp-ubuntu-gpu", version("v1.1.0", ".KubeVersion", ".KubeletVersion")...),
	})
	w.refused()
	return p
}

// suspend freezes the configuration of a pool.
func (w *world) suspend(pool string) {
	w.t.Helper()
	md := &machines.MachineDeployment{}
	md.Namespace, md.Name, _ = strings.Cut(pool, "/")
	w.must(w.client.Patch(w.t.Context(), md, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, api.AnnotationSuspend))))
}

// hostile pushes a commit whose author and message no git command would write.
func (w *world) hostile(name string, files map[string]string) {
	w.t.Helper()
	for path, content := range files {
		w.must(os.WriteFile(filepath.Join(w.path("work"), "profiles", path), []byte(content), 0o600))
	}
	w.gitRun(ada, "add", "-A")
	author, subject := hostileAuthor+long, "<script>alert(7)</script>\x1b[31m"+long
	if *update { // the screenshots are for readers
		author, subject = "Mira Castellanos", "example: commit memory as needed"
	}
	commit := fmt.Sprintf("tree %s\nparent %s\nauthor %s <mallory@example.com> 1767225600 +0000\ncommitter Git <git@example.com> 1767225600 +0000\n\n%s\n",
		w.gitRun(ada, "write-tree"), w.gitRun(ada, "rev-parse", "HEAD"), author, subject)
	w.must(os.WriteFile(w.path("commit"), []byte(commit), 0o600))
	id := w.gitRun(ada, "hash-object", "-t", "commit", "-w", "--literally", w.path("commit"))
	w.gitRun(ada, "reset", "-q", "--hard", id)
	w.gitRun(ada, "push", "-q", "origin", "main")
	w.commits[name] = id
}

// fetch gets a page as JSON.
func (w *world) fetch(address string, into any) int {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, address, nil)
	w.must(err)
	req.Header.Set("Accept", "application/json")
	res, err := http.DefaultClient.Do(req)
	w.must(err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	w.must(err)
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			w.t.Fatalf("%s: %v\n%.300s", address, err, b)
		}
	}
	return res.StatusCode
}

// paths are the tested pages, by the name of their screenshot.
func (w *world) paths() map[string]string {
	return map[string]string{
		"fleet":          "/",
		"filtered":       "/?q=web&state=Behind",
		"nothing":        "/?q=" + url.QueryEscape("<script>alert(8)</script>"),
		"changes":        "/changes",
		"nodes":          "/nodes?state=Behind",
		"profiles":       "/profiles",
		"profile":        "/profiles/osp-ubuntu-example",
		"rollouts":       "/rollouts",
		"sources":        "/sources",
		"commit-refused": "/commits/" + w.commits["refused"],
		"pool":           "/pools/shop/web-eu",
		"commit":         "/commits/" + w.commits["second"],
		"commit-hostile": "/commits/" + w.commits["hostile"],
		"node":           "/nodes/web-eu-7c9f4-b6c7d",
		"node-verified":  "/nodes/web-eu-7c9f4-b6c7d?verify=1",
		"node-differs":   "/nodes/web-eu-7c9f4-h8j9k",
		"differing":      "/nodes?state=Differing",
		"node-hostile":   "/nodes/web-eu-7c9f4-z9z9z",
		"node-inferred":  "/nodes/batch-58cc7-d5f6g",
		"search":         "/search?q=web",
		"search-hostile": "/search?q=" + url.QueryEscape(`"><img src=x onerror=alert(9)>`+long[:4000]),
		"missing":        "/nodes/" + url.PathEscape(`<script>alert(10)</script>`),
	}
}

// The pages of the controller and of osm-gitops ui in a browser: they say what there is,
// axe-core finds nothing wrong in light and dark and on a phone, nothing comes from
// elsewhere, nothing runs, and what strangers wrote stays text (security.md 28).
func TestPages(t *testing.T) {
	w := newWorld(t)
	needsBrowser(t) // skip before the long part if there is no browser
	address, err := testenv.FreeAddress()
	w.must(err)
	controller := w.story(address)
	own, err := testenv.FreeAddress()
	w.must(err)
	w.process("ui.log", "ui", "--kubeconfig", w.cluster.Kubeconfig, "--address", own, "--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8")
	for _, at := range []string{address, own} {
		w.until("http://"+at+" knows the nodes", func() error {
			var fleet struct{ Nodes struct{ Total int } }
			if res, err := http.Get("http://" + at + "/healthy"); err != nil { //nolint:noctx // until it listens
				return err
			} else if res.Body.Close(); res.StatusCode != http.StatusNotFound {
				return fmt.Errorf("it answers %s", res.Status)
			}
			if w.fetch("http://"+at+"/", &fleet); fleet.Nodes.Total != 13 {
				return fmt.Errorf("it knows %d", fleet.Nodes.Total)
			}
			return nil
		})
	}
	var p plan
	var names []string
	for _, variant := range []string{"light", "dark", "phone"} {
		for name, path := range w.paths() {
			p.Looks = append(p.Looks, look{URL: "http://" + address + path, Variant: variant, Screenshot: w.screenshot(name, variant), Height: 1300})
			names = append(names, name)
		}
	}
	for _, name := range []string{"fleet", "commit", "node"} {
		path := w.paths()[name]
		p.Looks = append(p.Looks, look{URL: "http://" + address + path, Variant: "zoomed"}, look{URL: "http://" + address + path, Variant: "phonedark"}, look{URL: "http://" + own + path, Variant: "light", Keyboard: true})
		names = append(names, name, name, name)
	}
	p.Walk = []step{
		{Open: "http://" + own + "/"},
		{Fill: "Search nodes, commits, authors, profiles and pools", With: "web-eu-7c9f4-b6c7d", Press: "Enter"},
		{Click: "web-eu-7c9f4-b6c7d"},
		{Click: "commit " + w.commits["second"][:12]},
		{Click: "shop/web-eu"},
		{Click: "Changes"},
		{Click: "Fleet"},
	}
	r := p.run(t)
	t.Logf("looked at %d pages with Chromium %s", len(r.Seen), r.Version)
	for i, s := range r.Seen {
		t.Run(names[i]+" "+s.Variant, func(t *testing.T) { s.check(t, names[i]) })
	}
	t.Run("without JavaScript", func(t *testing.T) { w.checkWalk(t, r) })
	for name, path := range w.paths() {
		t.Run(name+" as JSON", func(t *testing.T) { w.checkJSON(t, "http://"+address+path, "http://"+own+path) })
	}
	t.Run("from a dump", func(t *testing.T) { w.checkDump(t, "http://"+own) })
	controller.Stop()
	t.Run("with tokens", func(t *testing.T) { w.checkTokens(t) })
}

// screenshot is the path of a screenshot, or "" if none is written.
func (w *world) screenshot(name, variant string) string {
	shown := map[string]bool{
		"changes light": true, "fleet light": true, "fleet dark": true, "fleet phone": true, "commit light": true, "node light": true, "node phone": true, "node-differs light": true,
	}
	if dir := os.Getenv("OSM_SCREENSHOTS"); dir != "" { // all of them, to look at
		return filepath.Join(dir, name+"-"+variant+".png")
	}
	if !*update || !shown[name+" "+variant] {
		return ""
	}
	return filepath.Join(w.root, "docs", "images", "ui-"+name+"-"+variant+".png")
}

// harmless are the elements that pages are made of. None of them runs or fetches
// anything but the style sheet and the icon.
var harmless = strings.Fields("html head meta title link body a header div svg path circle rect span nav form label input button main footer p time code " +
	"h1 h2 h3 dl dt dd small section ul ol li strong select option article details summary pre table caption thead tbody tr th td br")

func (s sight) check(t *testing.T, name string) {
	status := http.StatusOK
	if name == "missing" {
		status = http.StatusNotFound
	}
	if s.Status != status {
		t.Errorf("it answers %d", s.Status)
	}
	for _, problem := range s.Problems {
		if status == http.StatusOK || !strings.Contains(problem, "404") {
			t.Error(problem)
		}
	}
	s.sound(t, harmless)
	s.checkText(t, name)
}

// sound checks the rules for all pages: accessible, not wider than the window, without elements
// that execute code, and loaded from one origin only.
func (s sight) sound(t *testing.T, elements []string) {
	t.Helper()
	for _, v := range s.Violations {
		t.Errorf("axe-core: %s", v)
	}
	if s.Rules < 15 {
		t.Errorf("axe-core passed %d rules only", s.Rules)
	}
	if s.Wide > 0 {
		t.Errorf("it is %d pixels wider than the window", s.Wide)
	}
	if s.Scripts != 0 || len(s.Handlers) != 0 {
		t.Errorf("there are %d scripts, handlers %q", s.Scripts, s.Handlers)
	}
	for _, e := range s.Elements {
		if !slices.Contains(elements, e) {
			t.Errorf("there is an element %s", e)
		}
	}
	own, _, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), "/")
	for _, r := range s.Requests {
		if !strings.HasPrefix(r, "http://"+own+"/") {
			t.Errorf("it asks for %.100s", r)
		}
	}
}

// checkText looks at what a page says, and in what order.
func (s sight) checkText(t *testing.T, name string) {
	if strings.ContainsAny(s.Text+s.Title, "\x1b\u202e\x07") {
		t.Error("there are control characters")
	}
	if len(s.Text) > 60_000 {
		t.Errorf("it has %d characters", len(s.Text))
	}
	for i, level := range s.Headings {
		if i == 0 && level != 1 || i > 0 && level > s.Headings[i-1]+1 {
			t.Errorf("the levels of its headings are %v", s.Headings)
			break
		}
	}
	for _, stop := range s.Keyboard {
		if !stop.Seen {
			t.Errorf("%s %q does not show that it has the focus", stop.Tag, stop.Name)
		}
	}
	if s.Keyboard != nil && (len(s.Keyboard) < 5 || s.Keyboard[0].Name != "Skip to content") {
		t.Errorf("the tab key comes to %v", s.Keyboard)
	}
	for _, text := range says[name] {
		if *update && (strings.Contains(text, "alert(") || strings.Contains(text, "boot") || strings.Contains(text, "f4a1l") || strings.Contains(text, "4711") || strings.Contains(text, "attempt")) {
			continue
		}
		if strings.Contains(s.Text, "c4nary") {
			t.Error("it has the output of a machine")
		}
		if !strings.Contains(s.Text, text) {
			t.Errorf("it does not say %q:\n%.3000s", text, s.Text)
		}
	}
}

// says is what pages say.
var says = map[string][]string{
	"fleet":          {"web-eu", "Suspended", "Rejected", "osp-ubuntu-gpu", "v1.2.0", "unknown", "example: more watches"},
	"changes":        {"example: more watches", "Ben Okafor", "osp-ubuntu-example v1.1.0", "Rejected", "<script>alert(7)</script>[31mxxx"},
	"nodes":          {"web-eu-7c9f4-4kx2p", "Behind", "profiles: begin"},
	"profiles":       {"osp-ubuntu-gpu", "platform", "v1.2.0"},
	"profile":        {"current", "example: more watches", "v1.0.1"},
	"rollouts":       {"spec.rollout.gate", "Maintenance windows", "opens ", "04:00 Europe/Berlin (", "open\n"},
	"sources":        {"platform", "NotReady", "osp-ubuntu-gpu.yaml"},
	"commit-refused": {"Rejected", "osp-ubuntu-gpu.yaml"},
	"filtered":       {"web-eu"},
	"nothing":        {"No pool matches."},
	"pool":           {"Machines that do not boot", "web-eu-7c9f4-f4a1l", "line on the node /opt/bin/setup:4711, exit status 22", "web-eu-7c9f4-4kx2p", "Configurations it had", "Ben Okafor"},
	"commit":         {"Ben Okafor", "example: more watches", "fs.inotify.max_user_watches = 2097152", "web-eu-7c9f4-t5v6w", "shop/web-eu"},
	"commit-hostile": {"web-eu-7c9f4-f4a1l", "stage Setup, attempt 3", "/opt/bin/setup:4711, exit status 22", "<img src=x onerror=alert(1)>[31mMallory", "<script>alert(6)</script>", "<img src=x onerror=alert(2)>.yaml"},
	"node":           {"was provisioned from osp-ubuntu-example v1.1.0", "by Ben Okafor", "Reported", "Behind", "Verification"},
	"node-verified":  {"Everything was rendered again from the repository, and agrees.", "OSP"},
	"node-differs":   {"Files on the node", "/etc/sysctl.d/90-kubernetes.conf", "Content 5f70bf18a086", "/etc/systemd/system/kubelet.service.d/local.conf", "DropIn", "Mode", "2 more", "Edited since", "it finds mistakes, not attackers"},
	"differing":      {"web-eu-7c9f4-h8j9k", "Differs"},
	"node-hostile":   {"<script>alert(5)</script>[2J", "<img src=x onerror=alert(1)>[31mMallory"},
	"node-inferred":  {"Inferred", "most likely"},
	"search":         {"web-us-5d8b6-q7w2z", "shop/web-eu"},
	"search-hostile": {"No results.", `"><img src=x onerror=alert(9)>xxx`},
	"missing":        {"<script>alert(10)</script>"},
}

// checkWalk checks that a user without JavaScript reached the intended page.
func (w *world) checkWalk(t *testing.T, r report) {
	var got []string
	for _, s := range r.Walked {
		if s.Problem != "" {
			t.Fatal(s.Problem)
		}
		got = append(got, s.Heading)
	}
	want := []string{"Fleet", "Search", "web-eu-7c9f4-b6c7d", w.commits["second"][:12], "shop/web-eu", "Changes 4", "Fleet"}
	if !slices.Equal(got, want) {
		t.Errorf("came to %q, want %q", got, want)
	}
}

// checkJSON compares what the controller and osm-gitops ui say to programs.
func (w *world) checkJSON(t *testing.T, addresses ...string) {
	var first string
	for _, at := range addresses {
		var v map[string]any
		w.fetch(at, &v)
		if v["kind"] == "" || v["asOf"] == nil {
			t.Errorf("%s: %v", at, v)
		}
		delete(v, "asOf")
		if found, ok := v["verification"].(map[string]any); ok && strings.HasSuffix(at, "verify=1") {
			delete(found, "at")
		} else {
			delete(v, "verification") // what was found before is still shown
		}
		b, err := json.Marshal(v)
		w.must(err)
		if strings.ContainsAny(string(b), "\x1b<\u202e") {
			t.Errorf("%.200s holds what does something to a terminal or a page", at)
		}
		if first == "" {
			first = string(b)
		}
		if string(b) != first {
			t.Errorf("the controller says\n%.2000s\nand osm-gitops ui\n%.2000s", first, b)
		}
	}
}

// checkDump shows that a dump says what the cluster does.
func (w *world) checkDump(t *testing.T, live string) {
	out, err := exec.CommandContext(t.Context(), w.binary, "trace", "--kubeconfig", w.cluster.Kubeconfig, "--dump", w.path("dump.gz")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	address, err := testenv.FreeAddress()
	w.must(err)
	w.process("dump.log", "ui", "--from", w.path("dump.gz"), "--address", address)
	w.until("the dump is shown", func() error {
		res, err := http.Get("http://" + address + "/") //nolint:noctx // until it listens
		if err == nil {
			res.Body.Close()
		}
		return err
	})
	for _, name := range []string{"fleet", "commit", "search"} {
		w.checkJSON(t, live+w.paths()[name], "http://"+address+w.paths()[name])
	}
}

// TestRefusedAddresses: osm-gitops ui listens on loopback only (security.md 29).
func TestRefusedAddresses(t *testing.T) {
	w := &world{t: t, dir: t.TempDir()}
	w.must(program.Controller(t.Context(), w.path("osm-gitops")))
	for _, args := range [][]string{
		{"ui", "--address", "0.0.0.0:8087"}, {"ui", "--address", "example.com:8087"}, {"ui", "--address", "nonsense"},
		{"controller", "--namespace", "kube-system", "--ui-address", "0.0.0.0:8087"},
		{"controller", "--namespace", "kube-system", "--ui-address", "8087", "--ui-tls-cert", "x"},
		{"controller", "--namespace", "kube-system", "--ui-tls-cert", "x", "--ui-tls-key", "x"},
	} {
		out, err := exec.CommandContext(t.Context(), w.path("osm-gitops"), args...).CombinedOutput()
		if exit := (&exec.ExitError{}); err == nil || !asExit(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("%q ended with %v\n%s", args, err, out)
		}
	}
}

// TestUnreachableAPIServer: the page is offered, and the command says that no API server
// answers.
func TestUnreachableAPIServer(t *testing.T) {
	w := &world{t: t, dir: t.TempDir()}
	w.must(program.Controller(t.Context(), w.path("osm-gitops")))
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	address := closed.Addr().String()
	w.must(closed.Close())
	kubeconfig := `{"apiVersion":"v1","kind":"Config","current-context":"c","users":[{"name":"u","user":{}}],"clusters":[{"name":"c","cluster":{"server":"https://` + address + `"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`
	w.must(os.WriteFile(w.path("kubeconfig"), []byte(kubeconfig), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.path("osm-gitops"), "ui", "--kubeconfig", w.path("kubeconfig"), "--address", "0")
	stderr, err := cmd.StderrPipe()
	w.must(err)
	w.must(cmd.Start())
	defer func() { cancel(); _ = cmd.Wait() }()
	said := ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.Contains(said, "the audit page is at") {
			break
		}
	}
	if !strings.Contains(said, "the API server does not answer") || !strings.Contains(said, "the audit page is at") {
		t.Errorf("it says\n%s", said)
	}
}

func asExit(err error, exit **exec.ExitError) bool { return errors.As(err, exit) }
