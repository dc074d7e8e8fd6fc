package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/test/program"
)

// patience bounds a scene: reaching it is a failure.
const patience = 4 * time.Minute

// Every block of every scene does what the page says, in the order of the scene.
func TestScenes(t *testing.T) {
	all := blocks(t)
	bin := t.TempDir()
	if err := program.DependOn("cmd", "pkg", "profiles", "deploy", "docs", "examples", "README.md", "go.mod", "test/docs", "tools/helm", "hack/tool"); err != nil {
		t.Fatal(err)
	}
	if err := program.Controller(t.Context(), filepath.Join(bin, "real")); err != nil {
		t.Fatal(err)
	}
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t, bin)
			if s.cluster {
				w.withCluster(s)
			}
			for _, a := range s.acts {
				if !w.play(all[a.block], a) {
					break // what follows builds on it
				}
			}
		})
	}
}

// world is the environment of a scene.
type world struct {
	t        *testing.T
	dir, bin string
	env      []string
}

func newWorld(t *testing.T, bin string) *world {
	t.Helper()
	dir, err := filepath.Abs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, bin: bin}
	w.env = append(os.Environ(), "KUBEONE="+self, "PATH="+bin+":"+os.Getenv("PATH"), "WORLD="+dir, "REPOSITORY="+top, "HOME="+dir,
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	w.write("cwd", dir)
	w.write("prelude", prelude)
	w.write("controller.flags", "")
	w.write("observer.flags", "")
	for to, from := range map[string]string{"profiles": "examples/repository/profiles", "clusters/prod": "examples/pools", "pools": "examples/pools", "deploy": "deploy", "examples/shards": "examples/shards"} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(filepath.Join(top, from))); err != nil {
			t.Fatal(err)
		}
	}
	settings, err := os.ReadFile(filepath.Join(top, "examples/cluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("cluster.yaml", string(settings))
	for name, text := range map[string]string{"osm-gitops": wrapper, "kubeone": kubeone} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	return w
}

// kubeone is this program, by TestMain.
const kubeone = "#!/bin/sh\n" + kubeoneEnv + `=1 exec "$KUBEONE" "$@"` + "\n"

// wrapper is what the pages call osm-gitops: it adds what this machine needs, and lets a
// controller that does not end run while the scene goes on.
const wrapper = `#!/usr/bin/env bash
real=$(dirname "$0")/real
case $1 in
controller)
	flags=$WORLD/controller.flags
	case " $* " in *" --dry-run "* | *" --observe "*) flags=$WORLD/observer.flags ;; esac
	case " $* " in *" --dry-run "*) exec "$real" "$@" $(cat "$flags") ;; esac
	nohup "$real" "$@" $(cat "$flags") >"$WORLD/controller.log" 2>&1 &
	echo $! >"$WORLD/controller.pid" ;;
verify) exec "$real" "$@" --allow-insecure-git --git-allowed-cidrs 127.0.0.0/8 ;;
*) exec "$real" "$@" ;;
esac
`

// prelude has what scenes say between blocks.
const prelude = `
# A configuration that changes is absent for a moment, and has another digest then.
configured() {
	local osc=osc/${1#*/}-${1%/*}-config secret=secret/${1#*/}-${1%/*}-bootstrap-config digest='{.metadata.annotations.gitops\.k8c\.io/input-digest}' now end=$((SECONDS + 60))
	until now=$(kubectl -n kube-system wait --for=create --timeout=60s "$osc" -o "jsonpath=$digest") &&
		kubectl -n cloud-init-settings wait --for=create --for="jsonpath=$digest=$now" --timeout=10s "$secret"; do
		((SECONDS < end)) || return 1
		sleep 0.2
	done
}
published() { kubectl -n kube-system wait --for=create --timeout=60s configmap/osm-gitops-snapshot; }

# Not grep -q: it ends at the first match, and what still writes dies of SIGPIPE.
has() { [[ $(cat) == *"$1"* ]]; }
image() { kubectl -n kube-system get deployment osm-gitops -o jsonpath='{.spec.template.spec.containers[0].image}'; }
stopped() { kill "$(cat "$WORLD/controller.pid")"; tail --pid="$(cat "$WORLD/controller.pid")" -f /dev/null; }

# No machine runs Pods here: what a Deployment says once they are ready.
ready() {
	kubectl -n kube-system wait --for=create --timeout=120s "deployment/$1"
	kubectl -n kube-system patch deployment "$1" --subresource=status --type merge \
		-p '{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2}}'
}

# A pool whose first machine has become a node.
joined() {
	sed 's/name: web-eu/name: workers/; s/namespace: shop/namespace: kube-system/' "$WORLD/pools/shop-web-eu.yaml" | kubectl apply -f -
	configured kube-system/workers
	made MachineSet workers-7c9f kube-system MachineDeployment workers
	made Machine workers-7c9f-x2x4k kube-system MachineSet workers-7c9f
	provenance=$(kubectl -n cloud-init-settings get secret workers-kube-system-provisioning-config \
		-o jsonpath='{.metadata.annotations.gitops\.k8c\.io/input-digest} {.metadata.annotations.gitops\.k8c\.io/commit}')
	digest=${provenance% *} commit=${provenance#* }
	digest=${digest#v1:sha256:}
	kubectl create -f - <<-END
	{apiVersion: v1, kind: Node, metadata: {name: workers-7c9f-x2x4k, labels: {
	  machine-controller/owned-by: $(uid machine/workers-7c9f-x2x4k), gitops.k8c.io/config: "${digest:0:12}", gitops.k8c.io/commit: "$commit"}}}
	END
	kubectl -n kube-system patch machine workers-7c9f-x2x4k --subresource=status --type merge -p '{"status":{"nodeRef":{"kind":"Node","name":"workers-7c9f-x2x4k"}}}'
	node=$(kubectl get node workers-7c9f-x2x4k -o jsonpath='{.metadata.uid}')
	kubectl wait --for=create --timeout=60s "np/workers-7c9f-x2x4k.${node:0:8}"
}
uid() { kubectl -n kube-system get "$1" -o jsonpath='{.metadata.uid}'; }
made() {
	kubectl create -f - <<-END
	{apiVersion: cluster.k8s.io/v1alpha1, kind: $1, metadata: {name: $2, namespace: $3, annotations: {machinedeployment.clusters.k8s.io/revision: "1"},
	  ownerReferences: [{apiVersion: cluster.k8s.io/v1alpha1, kind: $4, name: $5, uid: $(uid "$4/$5")}]}}
	END
}
`

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// mark parts what the steps of a block print.
const mark = "\x1e"

// play executes a block, and reports whether it did what it should.
func (w *world) play(b block, a act) bool {
	w.t.Helper()
	steps := b.steps()
	var script strings.Builder
	script.WriteString("set -euo pipefail\nsource \"$WORLD/prelude\"\ncd \"$(cat \"$WORLD/cwd\")\"\n")
	fmt.Fprintf(&script, "{ %s\n} >&2\nset +e\n", orNothing(a.first))
	if a.status == 0 {
		script.WriteString("set -e\n")
	}
	for _, s := range steps {
		fmt.Fprintf(&script, "printf '\\x1e'\n%s\n", s.command)
	}
	fmt.Fprintf(&script, "rc=$?\nset -e\n[ $rc = %d ] || { echo \"exit status $rc\" >&2; exit 99; }\n{ %s\n} >&2\npwd >\"$WORLD/cwd\"\n", a.status, orNothing(a.then))
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.Env = w.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		w.t.Errorf("%s:%d: %v\n%s%s\n%s", b.page, b.line, err, stdout.String(), stderr.String(), w.log())
		return false
	}
	if !a.same {
		return true
	}
	printed := strings.Split(stdout.String(), mark)[1:]
	for i, s := range steps {
		if diff := cmp.Diff(stable(s.shown), stable(printed[i])); diff != "" {
			w.t.Errorf("%s:%d: %s prints something else than the page shows (-page +printed):\n%s", b.page, b.line, strings.TrimSpace(s.command), diff)
		}
	}
	return true
}

func orNothing(command string) string {
	if command == "" {
		return ":"
	}
	return command
}

// log is the end of the controller's.
func (w *world) log() string {
	const keep = 4 << 10 // bytes
	text, err := os.ReadFile(filepath.Join(w.dir, "controller.log"))
	if err != nil {
		return ""
	}
	return string(text[max(0, len(text)-keep):])
}

var (
	times  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	hexes  = regexp.MustCompile(`\b[0-9a-f]{12,64}\b`)
	ages   = regexp.MustCompile(`\b(\d+[smhd])+\b`)
	spaces = regexp.MustCompile(` +`)
)

// stable is a text without what differs each time: times, ages, digests, and the width
// that they give to columns.
func stable(text string) string {
	text = times.ReplaceAllString(text, "TIME")
	text = hexes.ReplaceAllString(text, "HEX")
	text = ages.ReplaceAllString(text, "AGE")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(spaces.ReplaceAllString(line, " "))
	}
	return strings.Join(lines, "\n")
}
