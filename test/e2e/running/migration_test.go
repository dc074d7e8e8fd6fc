package running

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/dryrun"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// legacy is a control plane as OSM leaves it.
type legacy struct {
	*e2e.Legacy
	s *system
}

func newLegacy(s *system, pools int) *legacy {
	s.T.Helper()
	return &legacy{e2e.NewLegacy(s.System, pools), s}
}

// A control plane with 50 pools of OSM is taken over and handed back: the dry run
// predicts what the controller does, no document changes its meaning, no Secret is missing except
// once between the two requests that replace an immutable Secret, and OSM can
// generate everything again.
func TestMigration(t *testing.T) {
	s := newSystem(t)
	l := newLegacy(s, 50)
	s.Git.Push(map[string]string{"a.yaml": e2e.LegacyProfile("osp-legacy", "v1.0.0", "install"), "b.yaml": e2e.LegacyProfile("osp-legacy-flatcar", "v1.0.0", "install")})
	s.Source()
	for _, pool := range []string{"pool-01", "pool-05"} {
		node := s.Joins(pool, pool+"-node", nil)
		s.Status(&machines.Machine{}, pool+"-node", `{"nodeRef":{"kind":"Node","name":"`+node.Name+`"}}`)
	}
	secrets := s.WatchUserData("pool")

	foreseen := s.dryRun(t)
	if len(foreseen.Pools) != len(l.Pools) || len(foreseen.Nodes) != 2 || foreseen.HasFailures() {
		t.Fatalf("the dry run ended with %s", foreseen.Summary())
	}
	for _, p := range foreseen.Pools {
		for _, d := range p.Documents {
			if d.Change != dryrun.DocumentIdentical || d.Equivalence != dryrun.EquivalenceSame {
				t.Errorf("pool %s: the %s document would be %s, means %s, differs in %q", p.Name, d.Stage, d.Change, d.Equivalence, d.Differs)
			}
		}
	}

	s.observe(api.ReasonWouldChange, "50 pools, 50 whose documents have the same meaning")

	l.takeOver(t, foreseen)
	l.backAndForth(t)
	l.change(t, secrets)
	s.Stop()
	var all []string // have tokens of their own since the change
	for _, p := range l.Pools {
		all = append(all, p.Name)
	}
	l.WayBack(func() { l.handBack(t) }, all...)
}

// Also what changes for machines, what is new and what is refused is foreseen as it then
// comes, with the references to other namespaces that have to be allowed (security.md 35).
func TestDryRun(t *testing.T) {
	s := newSystem(t)
	newLegacy(s, 3)
	s.Git.Push(map[string]string{
		"a.yaml": e2e.LegacyProfile("osp-legacy", "v1.1.0", "install again"), "b.yaml": e2e.LegacyProfile("osp-legacy-flatcar", "v1.0.0", "install"),
		"broken.yaml": e2e.OSP("osp-broken", "v1.0.0", "{{ .Missing }}"),
	})
	s.Source()
	s.Pool("new", "osp-legacy")
	s.Pool("refers", "osp-legacy", e2e.RefersTo("etcd-backup"))
	s.Pool("wrong", "osp-none")

	foreseen := s.dryRun(t)
	var got []string
	for _, p := range foreseen.Pools {
		line := strings.TrimPrefix(p.Name, s.Pools+"/")
		for _, d := range p.Documents {
			line += fmt.Sprintf(", %s %q %t %q", d.Change, d.Equivalence, d.Absent, d.Differs)
		}
		got = append(got, line+", "+p.Rejected)
	}
	const kept, missing = `, kept "the same" false []`, `, missing "" false []`
	const changed = `, kept "the same" false [], written "another" true ["file \"/opt/bin/setup\""], `
	want := []string{
		`new, created "" false [], created "" false [], `, "pool-00" + kept + kept + ", ", "pool-01" + changed, "pool-02" + changed,
		"refers" + missing + missing + ", spec.template.spec.providerSpec.value.cloudProviderSpec refers to objects outside of namespace",
		"wrong" + missing + missing + `, no ProfileSource in namespace "kube-system" offers a profile "osp-none", and there is no OperatingSystemProfile of that name (there are`,
	}
	for i := range got {
		if i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("foreseen is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			break
		}
	}
	if flag := "--cloud-provider-references=kube-system/etcd-backup"; !slices.Equal(foreseen.References, []string{"kube-system/etcd-backup"}) || !strings.Contains(foreseen.Text(), "run the controller with "+flag) {
		t.Errorf("the references that have to be allowed are %q in\n%s", foreseen.References, foreseen.Text())
	}
	if i := slices.IndexFunc(foreseen.Sources, func(s dryrun.Source) bool { return s.Name == e2e.Namespace+"/osps" }); i < 0 || foreseen.Sources[i].Ready || !strings.Contains(foreseen.Sources[i].Message, "profiles/broken.yaml:") {
		t.Errorf("of the sources is foreseen %+v", foreseen.Sources)
	}
	mark := s.AuditSize()
	s.Start()
	s.Eventually("the controller to do what was foreseen", func() error {
		if d := cmp.Diff(requests(t, foreseen), s.requestsSince(mark, "osm-gitops")); d != "" {
			return errors.New("foreseen (-), done (+):\n" + d)
		}
		return nil
	})
}

// takeOver starts the controller, which does what was foreseen, and no more.
func (l *legacy) takeOver(t *testing.T, foreseen *dryrun.Report) {
	t.Helper()
	s := l.s
	mark := s.AuditSize()
	s.Start()
	s.Eventually("the controller to do what was foreseen", func() error {
		if d := cmp.Diff(requests(t, foreseen), s.requestsSince(mark, "osm-gitops")); d != "" {
			return errors.New("foreseen (-), done (+):\n" + d)
		}
		return nil
	})
	if c := apimeta.FindStatusCondition(s.ProfileSource().Status.Conditions, api.ObservedCondition); c != nil {
		t.Errorf("nobody observes any more, and the source says %+v", c)
	}
	l.CheckKept()
	for _, p := range l.Pools {
		var osc osm.OperatingSystemConfig
		if s.NoError(s.Get(e2e.Namespace, p.Name+"-"+s.Pools+"-config", &osc)); osc.Spec.CloudProvider.Spec != nil || osc.Annotations[api.AnnotationRecord] == "" {
			t.Errorf("the configuration of %s is OSM's", p.Name)
		}
	}
	if again := s.dryRun(t); again.Writes != 0 || again.HasFailures() {
		t.Errorf("beside the controller, which has nothing left to do, a dry run says\n%s", again.Text())
	}
}

// backAndForth hands the cluster back and takes it over again, while nothing changes: no Secret with
// a document is replaced, in either direction.
func (l *legacy) backAndForth(t *testing.T) {
	t.Helper()
	s := l.s
	s.Stop()
	l.handBack(t)
	l.CheckKept()
	s.Start()
	s.Eventually("the controller to have nothing left to do", func() error {
		if again := s.dryRun(t); again.Writes != 0 || again.HasFailures() {
			return errors.New(again.Text())
		}
		return nil
	})
	l.CheckKept()
}

// change pushes other profiles, whose content replaces each Secret once.
func (l *legacy) change(t *testing.T, secrets *e2e.UserDataWatch) {
	t.Helper()
	s := l.s
	s.Git.Push(map[string]string{"a.yaml": e2e.LegacyProfile("osp-legacy", "v1.1.0", "install again"), "b.yaml": e2e.LegacyProfile("osp-legacy-flatcar", "v1.1.0", "install again")})
	for _, p := range l.Pools {
		s.Served(p.Name, "v1.1.0")
	}
	secrets.Stop()
	<-secrets.Stopped
	deleted := map[string]int{}
	for _, e := range secrets.Events {
		if e.Type == watch.Deleted {
			deleted[e.Object.(*corev1.Secret).Name]++
		}
	}
	for name, times := range deleted {
		if times != 1 || !strings.HasSuffix(name, "-config") || strings.Contains(name, "kubelet") {
			t.Errorf("%s was deleted %d times", name, times)
		}
	}
	if len(deleted) == 0 || len(deleted) > 2*len(l.Pools) {
		t.Errorf("%d Secrets were replaced", len(deleted))
	}
}

func (l *legacy) handBack(t *testing.T) {
	t.Helper()
	if status, _, errs := l.s.handback(); status != 0 {
		t.Fatalf("handing back ended with %d: %s", status, errs)
	}
}

// dryRun runs the program with the rights of deploy/dry-run.yaml, checks that it writes nothing
// and prints no secret (security.md 15), and returns its report.
func (s *system) dryRun(t *testing.T) *dryrun.Report {
	t.Helper()
	s.NoError(s.Cluster.Apply(t.Context(), e2e.RepoPath("deploy/dry-run.yaml")))
	identity := s.KubeconfigOf(e2e.Namespace, "osm-gitops-dry-run")
	mark := s.AuditSize()
	status, out, errs := s.Runs(s.Args(identity, "--dry-run", "--output", "json", "--cache-dir", t.TempDir())...)
	if wrote := s.attemptsSince(mark, "osm-gitops-dry-run"); len(wrote) > 0 {
		t.Errorf("the dry run wrote %q", wrote)
	}
	var report dryrun.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("status %d, %v\n%s", status, err, errs)
	}
	if (status != 0) != report.HasFailures() {
		t.Errorf("status %d, %s: %s", status, report.Summary(), errs)
	}
	secrets := []string{e2e.Canary}
	for _, secret := range s.Tokens() {
		secrets = append(secrets, string(secret.Data["token-secret"]))
	}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(out+report.Text()+errs, secret) {
			t.Errorf("the dry run tells %q", secret)
		}
	}
	return &report
}

// requests returns the writes of a report in the form of the API server's audit log: by verb and
// path. Creations, which name no object in their path, are counted.
func requests(t *testing.T, r *dryrun.Report) map[string]int {
	t.Helper()
	out := map[string]int{}
	add := func(writes []dryrun.Write) {
		for _, w := range writes {
			plural := map[string]string{
				"Secret": "api/v1/secrets", "ConfigMap": "api/v1/configmaps", "ServiceAccount": "api/v1/serviceaccounts", "Node": "api/v1/nodes",
				"Role": "apis/rbac.authorization.k8s.io/v1/roles", "RoleBinding": "apis/rbac.authorization.k8s.io/v1/rolebindings", "ControllerRevision": "apis/apps/v1/controllerrevisions",
				"ProfileSource": "apis/gitops.k8c.io/v1alpha1/profilesources", "NodeProvenance": "apis/gitops.k8c.io/v1alpha1/nodeprovenances",
				"OperatingSystemProfile": "apis/operatingsystemmanager.k8c.io/v1alpha1/operatingsystemprofiles", "OperatingSystemConfig": "apis/operatingsystemmanager.k8c.io/v1alpha1/operatingsystemconfigs",
				"MachineDeployment": "apis/cluster.k8s.io/v1alpha1/machinedeployments",
			}[w.Kind]
			if plural == "" {
				t.Errorf("the kind %s is unknown to this test", w.Kind)
			}
			path := "/" + plural
			if i := strings.LastIndex(plural, "/"); w.Namespace != "" {
				path = "/" + plural[:i] + "/namespaces/" + w.Namespace + plural[i:]
			}
			if w.Verb != "create" || w.Part != "" {
				path += "/" + w.Name
			}
			if w.Part != "" {
				path += "/" + w.Part
			}
			note(out, w.Verb+" "+path)
		}
	}
	for _, s := range r.Sources {
		add(s.Writes)
	}
	for _, p := range r.Pools {
		add(p.Writes)
	}
	for _, n := range r.Nodes {
		add(n.Writes)
	}
	return out
}

// note counts creations. Any other request names its object and is counted once, because the
// number of retries depends on the order of concurrent writers.
func note(requests map[string]int, request string) {
	if strings.HasPrefix(request, "create ") && !strings.HasSuffix(request, "/token") {
		requests[request]++
	} else {
		requests[request] = 1
	}
}

// requestsSince are the writes of a ServiceAccount that the API server took, without
// events and leases.
func (s *system) requestsSince(mark int64, account string) map[string]int {
	s.T.Helper()
	out := map[string]int{}
	for _, r := range s.attemptsSince(mark, account) {
		if request, refused := strings.CutSuffix(r, " refused"); !refused && !strings.HasSuffix(r, "/events") && !strings.Contains(r, "/leases") {
			note(out, request)
		}
	}
	return out
}

// attemptsSince are the requests of a ServiceAccount that would write, by verb and path, in
// their order.
func (s *system) attemptsSince(mark int64, account string) []string {
	s.T.Helper()
	var out []string
	for _, a := range s.Attempts(mark, account) {
		path, _, _ := strings.Cut(a.RequestURI, "?")
		request := a.Verb + " " + path
		if a.ResponseStatus.Code >= 400 {
			request += fmt.Sprintf(" %d refused", a.ResponseStatus.Code)
		}
		out = append(out, request)
	}
	return out
}

// observe runs the controller next to the reference with the rights of deploy/observe.yaml until
// its condition has a reason and a message.
func (s *system) observe(reason string, says ...string) {
	s.T.Helper()
	s.NoError(s.Cluster.Apply(s.T.Context(), e2e.RepoPath("deploy/dry-run.yaml"), e2e.RepoPath("deploy/observe.yaml")))
	s.Identity = s.KubeconfigOf(e2e.Namespace, "osm-gitops-dry-run")
	defer func() { s.Identity = "" }()
	mark := s.AuditSize()
	s.Start("--observe", "--leader-elect=true")
	s.Eventually("the condition to say what would be done", func() error {
		c := apimeta.FindStatusCondition(s.ProfileSource().Status.Conditions, api.ObservedCondition)
		if c == nil || c.Reason != reason || !e2e.ContainsAll(c.Message, says) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	if ps := s.ProfileSource(); len(ps.Finalizers) > 0 || len(ps.Status.Profiles) > 0 || len(ps.Status.Conditions) != 1 || ps.Status.Revision != "" {
		s.T.Errorf("more than the condition was written: %+v, %+v", ps.ObjectMeta, ps.Status)
	}
	s.Stop()
	const lease = " /apis/coordination.k8s.io/v1/namespaces/" + e2e.Namespace + "/leases"
	conditions := 0
	for _, r := range s.attemptsSince(mark, "osm-gitops-dry-run") {
		switch r {
		case "create" + lease, "update" + lease + "/osm-gitops-observe":
		case "update" + lease + "/osm-gitops-observe 409 refused": // releases it while a renewal that the end interrupted is written
		case "patch /apis/gitops.k8c.io/v1alpha1/namespaces/" + e2e.Namespace + "/profilesources/osps/status":
			conditions++
		default:
			s.T.Errorf("the observer wrote %s", r)
		}
	}
	if conditions == 0 {
		s.T.Error("the audit log does not have the condition")
	}
}
