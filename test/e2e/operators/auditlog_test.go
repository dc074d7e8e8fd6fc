package operators

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

const provenanceCRD = "deploy/crds/gitops.k8c.io_nodeprovenances.yaml"

// uninstallProvenance takes the kind NodeProvenance away, until the test ends.
func (s *system) uninstallProvenance() {
	s.T.Helper()
	s.T.Cleanup(s.installProvenance)
	s.NoError(s.Cluster.Uninstall(s.T.Context(), func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Name == "nodeprovenances."+api.GroupVersion.Group
	}))
}

func (s *system) installProvenance() {
	s.T.Helper()
	s.NoError(s.Cluster.Install(context.WithoutCancel(s.T.Context())))
}

// auditLog are the lines of an audit log that are asked for.
func (s *system) auditLog(path string, about func(auditlog.Entry) bool) []auditlog.Entry {
	s.T.Helper()
	var out []auditlog.Entry
	_, err := auditlog.Verify([]string{path}, "", func(e auditlog.Entry) {
		if about(e) {
			out = append(out, e)
		}
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return out
}

// A controller that was upgraded without the kind NodeProvenance still provisions nodes, reports
// what is missing, and starts to record origins as soon as the kind exists. Its actions are in
// the audit log, also after a crash, and without a credential. security.md 14
func TestAuditLog(t *testing.T) {
	s := newSystem(t)
	s.uninstallProvenance()
	path := filepath.Join(t.TempDir(), "audit.log")
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source()
	s.Start("--audit-log", path)
	s.Ready(first)
	s.Pool("pool-a", "osp-a")
	_, provisioning := s.Served("pool-a", "v1.0.0")
	node := s.Joins("pool-a", "one", provisioning)
	s.Eventually("the log to say what is missing", func() error {
		s.LogMu.Lock()
		defer s.LogMu.Unlock()
		if !strings.Contains(s.Log.String(), "the kind NodeProvenance is not installed") || !strings.Contains(s.Log.String(), filepath.Base(provenanceCRD)) {
			return errors.New("it does not")
		}
		return nil
	})
	s.installProvenance()
	s.ComesFrom(node, api.EvidenceReported, "v1.0.0", first, api.BehindNo)

	second := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two"), "bad.yaml": "spec: [\n"})
	s.Served("pool-a", "v1.1.0")
	s.Kill()
	s.Start("--audit-log", path)
	s.ComesFrom(s.Joins("pool-a", "two", nil), api.EvidenceInferred, "v1.1.0", second, api.BehindNo)
	ours := func(e auditlog.Entry) bool {
		return e.Kind == auditlog.ControllerStarted || e.Kind == auditlog.LogRepaired || e.Object.Name == "osps" ||
			e.Object.Namespace == s.Pools || strings.HasPrefix(e.Object.Name, s.Pools)
	}
	ids := map[auditlog.Kind]map[string]auditlog.Entry{}
	want := map[auditlog.Kind]int{
		auditlog.ControllerStarted: 2, auditlog.ProfileAccepted: 2, auditlog.ProfileRefused: 1,
		auditlog.ConfigurationCreated: 1, auditlog.ConfigurationRotated: 1, auditlog.NodeJoined: 2,
	}
	s.Eventually("the audit log to have all of it", func() error {
		for _, e := range s.auditLog(path, ours) {
			if ids[e.Kind] == nil {
				ids[e.Kind] = map[string]auditlog.Entry{}
			}
			ids[e.Kind][e.ID] = e
		}
		for kind, n := range want {
			if len(ids[kind]) != n {
				return fmt.Errorf("%d of %s, want %d", len(ids[kind]), kind, n)
			}
		}
		return nil
	})
	for _, e := range ids[auditlog.ConfigurationRotated] {
		if e.Was.Commit != first || e.Is.Commit != second || e.Was.Version != "v1.0.0" || e.Is.Version != "v1.1.0" {
			t.Errorf("the rotation is told as %+v, %+v", e.Was, e.Is)
		}
	}
	text, err := os.ReadFile(path)
	s.Must(err)
	for what, secret := range s.Credentials() {
		if strings.Contains(string(text), secret) {
			t.Errorf("the audit log holds %s", what)
		}
	}
	program, err := e2e.Binary()
	s.Must(err)
	if out, err := exec.CommandContext(t.Context(), program, "verify", "--audit-log", path).CombinedOutput(); err != nil || !strings.Contains(string(out), "the chain is intact") {
		t.Errorf("verify: %v\n%s", err, out)
	}
}
