package appliers

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

func profileWith(labels, annotations map[string]string) *osm.OperatingSystemProfile {
	return &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "osp-a", Labels: labels, Annotations: annotations}}
}

func TestMarks(t *testing.T) {
	const id = ":operatingsystemmanager.k8c.io/OperatingSystemProfile:kube-system/osp-a"
	flux := map[string]string{labelFluxName: "fleet", labelFluxNamespace: "flux-system"}
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		want                string // "?" for one that is not sure
	}{
		"nobody's":                        {},
		"Flux's":                          {flux, nil, "Kustomization flux-system/fleet"},
		"Argo CD's":                       {nil, map[string]string{annotationTracking: "osps" + id}, "Application argocd/osps"},
		"of an Application elsewhere":     {nil, map[string]string{annotationTracking: "team_osps" + id}, "Application team/osps"},
		"a copy of another's tracking id": {nil, map[string]string{annotationTracking: "osps" + strings.Replace(id, "osp-a", "osp-b", 1)}, ""},
		"a tracking id cut short":         {nil, map[string]string{annotationTracking: "osps"}, ""},
		"by a label others set, too":      {map[string]string{labelInstance: "osps"}, nil, "Application argocd/osps?"},
		"of both":                         {flux, map[string]string{annotationTracking: "osps" + id}, "Kustomization flux-system/fleet, Application argocd/osps"},
	} {
		t.Run(name, func(t *testing.T) {
			osp := profileWith(c.labels, c.annotations)
			var got []string
			for _, a := range marks(osp, "argocd") {
				text := a.String()
				if a.unsure {
					text += "?"
				}
				got = append(got, text)
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, a := range Marks(osp, "argocd") {
				if a.unsure {
					t.Errorf("%s is not sure", a)
				}
			}
		})
	}
}

func decoded(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestFluxRevision(t *testing.T) {
	const listed = "inventory: {entries: [{id: kube-system_osp-a_operatingsystemmanager.k8c.io_OperatingSystemProfile, v: v1alpha1}]}"
	for name, c := range map[string]struct{ status, revision, why string }{
		"applied":                       {"{lastAttemptedRevision: r2, lastAppliedRevision: r2, " + listed + "}", "r2", ""},
		"while it applies":              {"{lastAttemptedRevision: r2, lastAppliedRevision: r1, conditions: [{type: Reconciling, status: 'True'}]}", "r2", ""},
		"applied, and nothing healthy":  {"{lastAttemptedRevision: r2, lastAppliedRevision: r1, conditions: [{type: Ready, status: 'False', reason: HealthCheckFailed}], " + listed + "}", "r2", ""},
		"ended before it applied":       {"{lastAttemptedRevision: r2, lastAppliedRevision: r1, conditions: [{type: Ready, status: 'False', reason: BuildFailed}], " + listed + "}", "r1", ""},
		"of before attempts were told":  {"{lastAppliedRevision: r1, " + listed + "}", "r1", ""},
		"not its object":                {"{lastAttemptedRevision: r2, lastAppliedRevision: r2, inventory: {entries: [{id: kube-system_osp-b_operatingsystemmanager.k8c.io_OperatingSystemProfile}]}}", "", "does not list"},
		"nothing yet":                   {"{" + listed + "}", "", "no revision yet"},
		"never looked at by kustomize-": {"{}", "", "does not list"},
	} {
		t.Run(name, func(t *testing.T) {
			revision, why := fluxRevision(decoded(t, "status: "+c.status), profileWith(nil, nil))
			if revision != c.revision || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("got %q, %q", revision, why)
			}
		})
	}
}

func TestArgoRevision(t *testing.T) {
	one, two := strings.Repeat("a", 40), strings.Repeat("b", 40)
	const listed = "resources: [{group: operatingsystemmanager.k8c.io, kind: OperatingSystemProfile, namespace: kube-system, name: osp-a, status: STATUS}]"
	in := func(status string) string { return strings.Replace(listed, "STATUS", status, 1) }
	for name, c := range map[string]struct{ status, target, revision, why string }{
		"synced":                                {"{" + in("Synced") + ", operationState: {phase: Succeeded, syncResult: {revision: " + two + ", " + in("Synced") + "}}}", "main", "main@sha1:" + two, ""},
		"while it syncs":                        {"{operationState: {phase: Running, operation: {sync: {revision: " + two + "}}}, sync: {revision: " + one + "}}", "main", "main@sha1:" + two, ""},
		"while it syncs, and does not say what": {"{operationState: {phase: Running}, sync: {revision: " + one + "}}", "main", "main@sha1:" + one, ""},
		"the last sync failed with it":          {"{" + in("OutOfSync") + ", history: [{revision: old}, {revision: " + one + "}], operationState: {phase: Failed, syncResult: {revision: " + two + ", " + in("SyncFailed") + "}}}", "", "HEAD@sha1:" + one, ""},
		"the last sync left it out":             {"{" + in("Synced") + ", history: [{revision: " + one + "}], operationState: {phase: Succeeded, syncResult: {revision: " + two + "}}}", "main", "main@sha1:" + one, ""},
		"a commit is followed":                  {"{" + in("Synced") + ", sync: {revision: " + one + "}}", one, "sha1:" + one, ""},
		"SHA-256":                               {"{" + in("Synced") + ", sync: {revision: " + strings.Repeat("c", 64) + "}}", "main", "main@sha256:" + strings.Repeat("c", 64), ""},
		"a chart":                               {"{" + in("Synced") + ", sync: {revision: 1.2.3}}", "1.x", "1.2.3", ""},
		"not its object":                        {"{sync: {revision: " + one + "}}", "main", "", "does not list"},
		"nothing yet":                           {"{" + in("OutOfSync") + "}", "main", "", "no revision yet"},
	} {
		t.Run(name, func(t *testing.T) {
			revision, why := argoRevision(decoded(t, "status: "+c.status), profileWith(nil, nil), c.target)
			if revision != c.revision || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("got %q, %q", revision, why)
			}
		})
	}
}

func TestSourceOfApplication(t *testing.T) {
	got, why := sourceOfApplication(decoded(t, "spec: {source: {repoURL: https://git.example.com/a.git, path: p, targetRevision: main}}"))
	if want := (argoSource{"https://git.example.com/a.git", "p", "main"}); got != want || why != "" {
		t.Errorf("got %+v, %q", got, why)
	}
	if _, why := sourceOfApplication(decoded(t, "spec: {sources: [{repoURL: a}, {repoURL: b}]}")); !strings.Contains(why, "several sources") {
		t.Errorf("got %q", why)
	}
}

// security.md 28: what others write is made fit to be read.
func TestPlaces(t *testing.T) {
	for in, want := range map[string]string{"": "./", "./": "./", "./profiles": "profiles/", "/a/../b/": "b/", "../../etc": "etc/", "a\x1b[31m": "a[31m/"} {
		if got := folder(in); got != want {
			t.Errorf("folder(%q) is %q, want %q", in, got, want)
		}
	}
	if got := address("https://user:canary@git.example.com/a.git?token=canary"); got != "https://git.example.com/a.git" { // security.md 14
		t.Errorf("got %q", got)
	}
}
