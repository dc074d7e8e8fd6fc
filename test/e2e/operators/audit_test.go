package operators

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// born is a node of the test with its origin, as the author of the test knows it.
type born struct {
	node             *corev1.Node
	pool             string
	profile, version string
	head             string // of the repository when it joined
}

// TestAudit: the commit of every node equals what git reports and can be proven, and every edit
// that an administrator makes without the controller is found and named.
func TestAudit(t *testing.T) {
	s := newSystem(t)
	ben, benLine := e2e.Signer(t, "ben@example.com")
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one"), "b.yaml": e2e.OSP("osp-b", "v1.0.0", "echo b one")})
	s.Begin(first)
	pools := map[string]string{"pool-a": "osp-a", "pool-c": "osp-a", "pool-b": "osp-b"}
	for pool, profile := range pools {
		s.Pool(pool, profile)
	}
	served := func(a, b string) {
		t.Helper()
		for pool, profile := range pools {
			s.Served(pool, map[string]string{"osp-a": a, "osp-b": b}[profile])
		}
	}
	served("v1.0.0", "v1.0.0")
	var all []born
	head := first
	join := func(pool, version string) {
		t.Helper()
		_, provisioning := s.Served(pool, version)
		node := s.Joins(pool, fmt.Sprintf("node-%d", len(all)), provisioning)
		all = append(all, born{node, pool, pools[pool], version, head})
	}

	merged := s.Git.Merge(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")}, "a change on a branch", "Cy Author <cy@example.com>")
	head = merged
	s.Ready(merged)
	served("v1.1.0", "v1.0.0")
	for _, pool := range []string{"pool-a", "pool-b", "pool-c", "pool-a"} {
		join(pool, map[string]string{"osp-a": "v1.1.0", "osp-b": "v1.0.0"}[pools[pool]])
	}
	s.known(all)

	s.Stop()
	join("pool-c", "v1.1.0") // while no controller runs
	reverted := s.Git.Revert(merged)
	head = reverted
	s.Start()
	s.Ready(reverted)
	served("v1.0.0", "v1.0.0")
	for _, pool := range []string{"pool-a", "pool-b", "pool-c"} {
		join(pool, "v1.0.0")
	}
	s.known(all)

	s.Stop()
	s.Git.Push(map[string]string{"b.yaml": e2e.OSP("osp-b", "v1.1.0", "echo b two")}) // accepted for the signature of the next
	s.Git.SignedBy(ben)
	signed := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.2.0", "echo three")})
	s.Git.SignedBy("")
	s.Trust(benLine)
	s.Source(e2e.GitSpec("verify", map[string]any{"mode": "HEAD", "secretRef": map[string]any{"name": "signers"}}))
	head = signed
	s.Start()
	s.Ready(signed)
	served("v1.2.0", "v1.1.0")
	for _, pool := range []string{"pool-a", "pool-b", "pool-c", "pool-a"} {
		join(pool, map[string]string{"osp-a": "v1.2.0", "osp-b": "v1.1.0"}[pools[pool]])
	}
	if len(all) != 12 {
		t.Fatalf("%d nodes joined", len(all))
	}
	s.known(all)

	s.Run("git says the same", func(t *testing.T) { s.asGitSays(all, benLine) })
	s.Run("all is proven", func(t *testing.T) { s.proven(all) })
	s.Run("in other ways", func(t *testing.T) { s.otherWays("node/"+all[0].node.Name, benLine) })
	s.Stop()
	s.Run("tampering is named", func(t *testing.T) { s.tamper(all) })
}

// known waits until the origin of every node is recorded.
func (s *system) known(all []born) {
	s.T.Helper()
	for _, b := range all {
		s.Eventually("the provenance of "+b.node.Name, func() error {
			np, err := s.provenanceOf(b)
			if err == nil && (np.Spec.Configuration == nil || np.Spec.Configuration.Version != b.version || np.Spec.Evidence != api.EvidenceReported) {
				err = fmt.Errorf("got %+v", np.Spec)
			}
			return err
		})
	}
}

func (s *system) provenanceOf(b born) (*api.NodeProvenance, error) {
	var np api.NodeProvenance
	return &np, s.Get("", lineage.ProvenanceName(b.node.Name, b.node.UID), &np)
}

// asGitSays compares what trace says of each node with the git command.
func (s *system) asGitSays(all []born, allowed string) {
	s.T.Helper()
	signers := filepath.Join(s.T.TempDir(), "allowed_signers")
	s.Must(os.WriteFile(signers, []byte(allowed), 0o600))
	signatures := 0
	for _, b := range all {
		c := s.Trace(s.Cluster.Kubeconfig, "node/"+b.node.Name).Commit
		if c == nil {
			s.T.Errorf("%s: trace names no commit", b.node.Name)
			continue
		}
		file := "profiles/" + strings.TrimPrefix(b.profile, "osp-") + ".yaml"
		var commit, selected string
		before := false
		for id := range strings.FieldsSeq(s.Git.Run("rev-list", "--first-parent", "--reverse", b.head)) {
			has := strings.Contains(s.Git.Run("show", id+":"+file), "version: "+b.version+"\n")
			if has && commit == "" {
				commit = id
			}
			if has && !before {
				selected = id
			}
			before = has
		}
		change := s.Git.Run("log", "-1", "--format=%H", commit, "--", file)
		want := map[string]string{
			"commit": commit, "change": change, "path": file, "repository": s.Git.URL,
			"author":    strings.ReplaceAll(s.Git.Run("log", "-1", "--format=%an <%ae>", change), "\u202e", ""), // security.md 28
			"committed": s.Git.Run("log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", commit),
		}
		got := map[string]string{
			"commit": c.Commit, "change": c.Change, "path": c.Path, "repository": c.Repository, "author": c.Author, "committed": c.CommittedAt,
		}
		for k, w := range want {
			if got[k] != w {
				s.T.Errorf("%s: %s is %q, git says %q", b.node.Name, k, got[k], w)
			}
		}
		by := s.Git.Run("-c", "gpg.ssh.allowedSignersFile="+signers, "log", "-1", "--format=%G? %GS", commit)
		if strings.HasPrefix(by, "G ") != strings.HasPrefix(c.Signature, "commit "+commit+" by "+strings.TrimPrefix(by, "G ")+", ssh SHA256:") {
			s.T.Errorf("%s: signature is %q, git says %q", b.node.Name, c.Signature, by)
		}
		if strings.HasPrefix(by, "G ben@example.com") {
			signatures++
		}
		if c.SelectedBy != selected {
			s.T.Errorf("%s: selectedBy is %q, git says %q", b.node.Name, c.SelectedBy, selected)
		}
	}
	if signatures != 3 {
		s.T.Errorf("%d nodes are of a signed commit, want 3", signatures)
	}
}

// verdict is the result of a run of verify.
type verdict struct {
	status      int
	report      verify.Report
	out, stderr string
}

// verify runs the command as the cluster's administrator.
func (s *system) verify(args ...string) (verdict, error) {
	var v verdict
	status, out, errs, err := s.Command(append([]string{"verify", "-o", "json", "--kubeconfig", s.Cluster.Kubeconfig, "--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8"}, args...)...)
	v = verdict{status: status, out: out, stderr: errs}
	if err == nil && out != "" {
		err = json.Unmarshal([]byte(out), &v.report)
	}
	return v, err
}

// proven verifies every node and every pool.
func (s *system) proven(all []born) {
	s.T.Helper()
	subjects := map[string]bool{}
	for _, b := range all {
		subjects["node/"+b.node.Name] = true
		subjects["machinedeployment/"+s.Pools+"/"+b.pool] = true
	}
	todo := make(chan string, len(subjects))
	for subject := range subjects {
		todo <- subject
	}
	close(todo)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for subject := range todo {
				v, err := s.verify(subject)
				if err != nil || v.status != 0 || v.report.Verdict != verify.VerdictAgrees || v.stderr != "" {
					s.T.Errorf("%s: status %d (%v)\n%s%s", subject, v.status, err, v.out, v.stderr)
				}
			}
		})
	}
	wg.Wait()
}

// otherWays verifies by another repository, from a dump, and what did not come from a
// repository at all.
func (s *system) otherWays(node, allowed string) {
	s.T.Helper()
	dir := s.T.TempDir()
	keys, dump, cache := filepath.Join(dir, "keys"), filepath.Join(dir, "dump"), filepath.Join(dir, "cache")
	s.Must(os.WriteFile(keys, []byte(allowed), 0o600))
	if status, _, errs := s.Runs("trace", "--dump", dump, "--kubeconfig", s.Cluster.Kubeconfig); status != 0 {
		s.T.Fatalf("dumping: status %d\n%s", status, errs)
	}
	var byHand map[string]any
	s.Must(yaml.Unmarshal([]byte(e2e.OSP("by-hand", "v1.0.0", "echo")), &byHand))
	byHand["metadata"].(map[string]any)["namespace"] = e2e.Namespace
	s.Apply(byHand)
	s.Pool("pool-hand", "by-hand")
	s.Served("pool-hand", "v1.0.0")
	s.Pool("pool-builtin", "osp-ubuntu")
	s.Served("pool-builtin", s.Builtin("osp-ubuntu").Version)
	pool := "machinedeployment/" + s.Pools + "/"
	signed := "node/" + s.Pools + "-node-11"
	for name, c := range map[string]struct {
		args    []string
		status  int
		verdict string
	}{
		"a clone": {[]string{node, "--repo", s.Git.Work}, 0, "agrees"},
		// Signatures are demanded now, and that commit has none: nothing shows that it was accepted.
		"a clone, at a commit of then":   {[]string{node, "--repo", s.Git.Work, "--revision", "HEAD~1"}, 1, "unproven"},
		"a clone, at a commit of before": {[]string{node, "--repo", s.Git.Work, "--revision", "HEAD~4"}, 1, "repository differs"},
		"a cache":                        {[]string{node, "--cache-dir", cache}, 0, "agrees"},
		"the cache again":                {[]string{signed, "--cache-dir", cache}, 0, "agrees"},
		"keys that are given":            {[]string{signed, "--keys", keys}, 0, "agrees"},
		"a commit that is not signed":    {[]string{node, "--keys", keys}, 1, "signature differs"},
		"no Secrets":                     {[]string{signed, "--without-secrets"}, 0, "agrees"},
		"a built-in profile":             {[]string{pool + "pool-builtin"}, 0, "agrees"},
		"a profile made by hand":         {[]string{pool + "pool-hand"}, 1, "unproven"},
	} {
		if v, err := s.verify(c.args...); err != nil || v.status != c.status || v.report.Verdict != c.verdict {
			s.T.Errorf("%s: status %d, verdict %q, want %d and %q (%v)\n%s%s", name, v.status, v.report.Verdict, c.status, c.verdict, err, v.out, v.stderr)
		}
	}
	path, err := e2e.Binary()
	s.Must(err)
	out, err := exec.CommandContext(s.T.Context(), path, "verify", signed, "--from", dump, "--repo", s.Git.Work, "--keys", keys).Output()
	if err != nil || !strings.Contains(string(out), "\nverdict: agrees\n") {
		s.T.Errorf("a dump: %v\n%s", err, out)
	}
}
