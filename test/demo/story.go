package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/program"
)

// options of the demo.
type options struct {
	keep  bool   // leave everything running until Ctrl-C
	index string // URL of envtest's index; empty: the public one
	sum   string // of its archive; empty: the one that is pinned
}

// result is the outcome of the demo, for its test.
type result struct {
	first, changed, mended, rolledBack outcome
	failed                             api.MachineBootStatus
	restored                           string   // event about the edited Secret
	commits                            []commit // in the order they were pushed
	line                               int      // of the mistake
	told                               told
	deleted                            []string // user-data Secrets that were absent for a moment
	log                                string   // the controller's
	events                             []string // of the controller: "object: reason: text", sorted
}

// The profile that the story changes, and its file.
const (
	profileName = "osp-ubuntu-example"
	profilePath = "profiles/" + profileName + ".yaml"
)

// editedPool has the node that is traced and the Secret that is edited.
var editedPool = pool{"shop", "web-eu", profileName}

// wholeOutput is more lines than a command prints.
const wholeOutput = 1000

// firstCommits is the number of commits in the first push.
const firstCommits = 3

// logLines is how much of the controller's log is shown when something fails.
const logLines = 20

// demo runs the story and cleans up, also after errors.
func demo(ctx context.Context, o options, stdout io.Writer, res *result) (err error) {
	if res == nil {
		res = &result{}
	}
	out := &screen{w: stdout}
	root, err := program.Root()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "osm-gitops-demo-")
	if err != nil {
		return err
	}
	s := &stage{dir: dir, root: root, index: cmp.Or(o.index, envtest.DefaultBinaryAssetsIndexURL), sum: cmp.Or(o.sum, archiveSums[runtime.GOARCH])}
	// Errors are printed below, not by libraries between the lines of the story.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	interrupted := ctx.Err
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		if log := tail(s.log(), logLines); err != nil && log != "" && interrupted() == nil {
			err = fmt.Errorf("%w\n\nThe last lines of the controller's log:\n%s", err, log)
		}
		cancel(nil)
		if untidy := s.strike(); untidy != nil {
			err = errors.Join(err, &untidyError{untidy})
		}
	}()

	out.say("osm-gitops demo: from a commit to the user-data of a node, on a real API server")
	out.chapter("A cluster, a Git server, and the controller")
	if err := s.set(ctx, out); err != nil {
		return err
	}
	go s.controllerEnded(ctx, cancel)
	begin := time.Now()
	for _, scene := range []func(context.Context, *stage, *screen, *result) error{firstPush, nodes, handEdit, change, mistake, fixMistake, failedBoot, rollback} {
		if err := scene(ctx, s, out, res); err != nil {
			return err
		}
	}
	res.deleted = s.seen.deleted()
	res.events = s.events()
	res.log = tail(s.log(), 1<<20)
	if err := summary(out, res, time.Since(begin)); err != nil {
		return err
	}
	if o.keep {
		keep(ctx, s, out)
	}
	return nil
}

// untidyError says that something of the demo is left.
type untidyError struct{ err error }

func (e *untidyError) Error() string { return "tidying up: " + e.err.Error() }
func (e *untidyError) Unwrap() error { return e.err }

// firstPush brings profiles into Git and pools into the cluster.
func firstPush(ctx context.Context, s *stage, out *screen, res *result) error {
	out.chapter("Three people push profiles to Git; six pools ask for them")
	from := filepath.Join(s.root, "examples/repository")
	var last commit
	for _, c := range []struct {
		who     person
		subject string
		paths   []string
	}{
		{nadia, "Add the profile of ordinary nodes", []string{"README.md", profilePath}},
		{priya, "Add the profile of nodes with GPUs", []string{"profiles/osp-ubuntu-gpu.yaml"}},
		{tomasz, "Add the profile of cache nodes", []string{"profiles/osp-ubuntu-edge-cache.yaml"}},
	} {
		for _, path := range c.paths {
			if err := s.repo.copy(from, path); err != nil {
				return err
			}
		}
		var err error
		if last, err = s.repo.commit(ctx, c.who, c.subject); err != nil {
			return err
		}
		res.commits = append(res.commits, last)
		out.text(fmt.Sprintf("%s  %-40s %s", short(last.hash), last.subject, last.author))
	}
	pushed, err := s.repo.push(ctx, tomasz)
	if err != nil {
		return err
	}
	out.text(`
$ git push origin main
$ kubectl apply -f examples/profilesource.yaml     (with the URL above)
$ kubectl apply -f examples/pools`)
	out.say("")
	if err := s.applySource(ctx); err != nil {
		return err
	}
	if err := s.applyPools(ctx); err != nil {
		return err
	}
	pools, err := s.pools(ctx)
	if err != nil {
		return err
	}
	if res.first, err = s.follow(ctx, last, pools, pushed, nil); err != nil {
		return err
	}
	out.table(res.first.table())
	out.text("\n" + s.readyLine())
	return nil
}

// nodes lets a node of each pool join and asks where one comes from.
func nodes(ctx context.Context, s *stage, out *screen, res *result) error {
	out.chapter("Six nodes join: which commit is on them?")
	begin := time.Now()
	if err := s.join(ctx, res.first.pools); err != nil {
		return err
	}
	out.text(fmt.Sprintf("The demo acts as machine-controller and kubelet. The controller recorded the origin of %d nodes in %s.", len(res.first.pools), seconds(time.Since(begin))))
	if err := s.command(ctx, out, "trace node/"+editedPool.node(), wholeOutput); err != nil {
		return err
	}
	const verdict = 4 // the lines up to it
	return s.command(ctx, out, "verify node/"+editedPool.node()+" "+gitFlags, verdict)
}

// handEdit overwrites a Secret as a person with kubectl would.
func handEdit(ctx context.Context, s *stage, out *screen, res *result) error {
	out.chapter("Someone edits a Secret by hand")
	i := slices.IndexFunc(res.first.pools, func(p state) bool { return p.pool.String() == editedPool.String() })
	begin := time.Now()
	var err error
	if res.restored, err = s.editSecret(ctx, res.first.pools[i]); err != nil {
		return err
	}
	out.text(fmt.Sprintf("$ kubectl -n %s patch secret %s ...\n\nIt had its bytes back after %s. Event %s of MachineDeployment %s:\n%s",
		api.NamespaceCloudInitSettings, editedPool.secret("provisioning"), seconds(time.Since(begin)), api.EventConfigRestored, editedPool, indent(res.restored, "  ")))
	return nil
}

// change raises the version of one profile.
func change(ctx context.Context, s *stage, out *screen, res *result) error {
	out.chapter("One profile changes by one line; its pools follow, the others stay")
	err := s.repo.edit(profilePath,
		"  version: v1.0.1\n", "  version: v1.1.0\n",
		"            vm.overcommit_memory = 1\n", "            vm.max_map_count = 262144\n            vm.overcommit_memory = 1\n")
	if err != nil {
		return err
	}
	res.changed, err = s.pushAndFollow(ctx, out, res, edit{tomasz, "Allow search engines more memory maps"}, res.first)
	if err != nil {
		return err
	}
	const pool, path, line = "shop/web-eu", "/etc/sysctl.d/90-kubernetes.conf", "vm.max_map_count = 262144"
	if !res.changed.written(pool, path, line) {
		return fmt.Errorf("the user-data of %s does not write %q to %s", pool, line, path)
	}
	out.text(fmt.Sprintf("\nThe next machine of %s gets in %s: %s", pool, path, line))
	return nil
}

// mistake pushes a template that cannot be rendered.
func mistake(ctx context.Context, s *stage, out *screen, res *result) error {
	out.chapter("A push contains a mistake; no node notices")
	err := s.repo.edit(profilePath,
		"  version: v1.1.0\n", "  version: v1.2.0\n",
		`"kubelet={{ .KubeVersion | trimPrefix "v" }}-*"`, `"kubelet={{ .KubeletVersion | trimPrefix "v" }}-*"`,
		" nfs-common socat\n", " nfs-common open-iscsi socat\n")
	if err != nil {
		return err
	}
	if res.line, err = s.repo.lineOf(profilePath, ".KubeletVersion"); err != nil {
		return err
	}
	c, _, err := s.publish(ctx, out, res, edit{nadia, "Install open-iscsi for the new storage"})
	if err != nil {
		return err
	}
	if res.told, err = s.toldOf(ctx, c); err != nil {
		return err
	}
	out.text("What its author reads in status and events of ProfileSource platform:\n\n" + res.told.text())
	unchanged, err := s.unchanged(res.changed)
	if err != nil {
		return err
	}
	out.text("\nEvery pool still has what it had: " + unchanged)
	return nil
}

// fixMistake corrects the mistake. Its version was never accepted, so it is still free.
func fixMistake(ctx context.Context, s *stage, out *screen, res *result) error {
	out.chapter("The mistake is fixed under the same version")
	if err := s.repo.edit(profilePath, "{{ .KubeletVersion |", "{{ .KubeVersion |"); err != nil {
		return err
	}
	var err error
	res.mended, err = s.pushAndFollow(ctx, out, res, edit{nadia, "Name the kubelet's version by its field"}, res.changed)
	if err != nil {
		return err
	}
	out.text("\n" + s.readyLine())
	return nil
}

// failedBoot lets a machine report that the new package cannot be installed, and asks why it has no node.
func failedBoot(ctx context.Context, s *stage, out *screen, res *result) error {
	out.chapter("A machine does not boot: which line of whose commit?")
	i := slices.IndexFunc(res.mended.pools, func(p state) bool { return p.pool.String() == editedPool.String() })
	begin := time.Now()
	var err error
	if res.failed, err = s.failToBoot(ctx, res.mended.pools[i]); err != nil {
		return err
	}
	out.text(fmt.Sprintf("No machine runs here: the demo sends what one sends if its profile has the reporting scripts, with the token in its user-data.\nThe controller named the cause after %s.", seconds(time.Since(begin))))
	const boot = 14 // the lines up to the end of the output of the script
	return s.command(ctx, out, "trace machine/"+editedPool.namespace+"/"+res.failed.Machine, boot)
}

// rollback reverts everything that followed the first change.
func rollback(ctx context.Context, s *stage, out *screen, res *result) error {
	out.chapter("git revert rolls back")
	const commits = "HEAD~2..HEAD"
	if _, err := s.repo.git(ctx, nadia, "revert", "--no-commit", commits); err != nil {
		return err
	}
	out.text("$ git revert --no-commit " + commits + "\n$ git commit\n")
	out.say("")
	var err error
	res.rolledBack, err = s.pushAndFollow(ctx, out, res, edit{nadia, "Do without open-iscsi"}, res.mended)
	return err
}

// edit is who edited the work tree, and what for.
type edit struct {
	who     person
	subject string
}

// pushAndFollow commits what was edited, pushes it, and waits for the pools.
func (s *stage) pushAndFollow(ctx context.Context, out *screen, res *result, e edit, before outcome) (outcome, error) {
	c, pushed, err := s.publish(ctx, out, res, e)
	if err != nil {
		return outcome{}, err
	}
	pools, err := s.pools(ctx)
	if err != nil {
		return outcome{}, err
	}
	now, err := s.follow(ctx, c, pools, pushed, &before)
	if err != nil {
		return outcome{}, err
	}
	out.table(now.changedPools())
	out.text("\n" + now.untouched())
	return now, nil
}

// publish commits, prints the commit, pushes it, and requests a reconciliation.
func (s *stage) publish(ctx context.Context, out *screen, res *result, e edit) (commit, time.Time, error) {
	c, err := s.repo.commit(ctx, e.who, e.subject)
	if err != nil {
		return c, time.Time{}, err
	}
	res.commits = append(res.commits, c)
	lines, err := s.repo.changedLines(ctx, c)
	if err != nil {
		return c, time.Time{}, err
	}
	out.text(fmt.Sprintf("%s  %-40s %s\n%s", short(c.hash), c.subject, c.author, indent(lines, "  ")))
	pushed, err := s.repo.push(ctx, e.who)
	if err != nil {
		return c, pushed, err
	}
	token, err := s.requestReconcile(ctx)
	if len(res.commits) == firstCommits+1 {
		out.text(fmt.Sprintf(`
$ git push origin main
$ kubectl -n kube-system annotate profilesource platform --overwrite \
    reconcile.fluxcd.io/requestedAt=%s
  (without it the change is seen within a minute)`, token))
	} else {
		out.text("\nPushed and requested as above.")
	}
	out.say("")
	return c, pushed, err
}

func summary(out *screen, res *result, took time.Duration) error {
	if len(res.deleted) > 0 {
		return fmt.Errorf("absent for a moment were the Secrets %s", strings.Join(res.deleted, ", "))
	}
	remains, err := remaining()
	if err != nil {
		return err
	}
	out.text(fmt.Sprintf("\nNo Secret that a machine boots from was absent at any moment. Parts 2 to %d took %s.\n%s", out.chapters, took.Round(time.Second), remains))
	return nil
}

// remaining says what the demo leaves on this machine.
func remaining() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	if home, err := os.UserHomeDir(); err == nil {
		if below, ok := strings.CutPrefix(cache, home+"/"); ok {
			cache = "~/" + below
		}
	}
	return fmt.Sprintf("It leaves the control plane in %s/osm-gitops, and Go's caches of modules and builds.", cache), nil
}

// keep prints commands to try, and waits.
func keep(ctx context.Context, s *stage, out *screen) {
	out.chapter("Everything goes on running until Ctrl-C")
	out.text(fmt.Sprintf(`The controller's log: %[1]s

In another terminal:

  export KUBECONFIG=%[2]s
  export PATH=%[3]s:$PATH
  osm-gitops trace node/%[4]s
  osm-gitops verify node/%[4]s %[5]s
  osm-gitops ui %[5]s
  cd %[6]s     # change profiles, git commit and git push; the controller follows within a minute, or now:
  osm-gitops reconcile source/platform --wait

With kubectl, which the demo neither needs nor brings:

  kubectl -n kube-system get profilesources,osp,osc
  kubectl -n kube-system describe profilesource platform
  kubectl -n cloud-init-settings get secret web-eu-shop-bootstrap-config -o jsonpath='{.data.cloud-config}' | base64 -d`,
		s.log(), s.cluster.Kubeconfig, filepath.Dir(s.binary), editedPool.node(), gitFlags, s.repo.tree))
	<-ctx.Done()
	out.say("")
	out.text("stopping")
}

func indent(text, by string) string {
	if text == "" {
		return ""
	}
	return by + strings.ReplaceAll(text, "\n", "\n"+by)
}
