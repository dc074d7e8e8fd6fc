package ownership

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
			for _, a := range possibleAppliers(osp, "argocd") {
				text := a.String()
				if a.unsure {
					text += "?"
				}
				got = append(got, text)
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, a := range CertainAppliers(osp, "argocd") {
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
		"applied":                        {"{lastAttemptedRevision: r2, lastAppliedRevision: r2, " + listed + "}", "r2", ""},
		"while it applies":               {"{lastAttemptedRevision: r2, lastAppliedRevision: r1, conditions: [{type: Reconciling, status: 'True'}]}", "r2", ""},
		"applied, and nothing healthy":   {"{lastAttemptedRevision: r2, lastAppliedRevision: r1, conditions: [{type: Ready, status: 'False', reason: HealthCheckFailed}], " + listed + "}", "r2", ""},
		"ended before it applied":        {"{lastAttemptedRevision: r2, lastAppliedRevision: r1, conditions: [{type: Ready, status: 'False', reason: BuildFailed}], " + listed + "}", "r1", ""},
		"of before attempts were told":   {"{lastAppliedRevision: r1, " + listed + "}", "r1", ""},
		"not its object":                 {"{lastAttemptedRevision: r2, lastAppliedRevision: r2, inventory: {entries: [{id: kube-system_osp-b_operatingsystemmanager.k8c.io_OperatingSystemProfile}]}}", "", "does not list"},
		"nothing yet":                    {"{" + listed + "}", "", "no revision yet"},
		"never reconciled by kustomize-": {"{}", "", "does not list"},
	} {
		t.Run(name, func(t *testing.T) {
			by := managers{marked: map[string]bool{fluxManager: true}}
			revision, why, _ := fluxRevision(decoded(t, "status: "+c.status), profileWith(nil, nil), by)
			if revision != c.revision || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("got %q, %q", revision, why)
			}
		})
	}
}

// A copy of a profile also has the labels: that the Kustomization is reconciling, as a
// failing one always is, does not prove that it applied an object that another manager
// wrote.
func TestFluxAtWorkOnAnother(t *testing.T) {
	k := decoded(t, "status: {lastAttemptedRevision: r2, conditions: [{type: Reconciling, status: 'True', reason: ProgressingWithRetry}]}")
	if revision, why, c := fluxRevision(k, profileWith(nil, nil), managers{marked: map[string]bool{"kubectl-create": true}}); revision != "" || c != denied {
		t.Errorf("a copy is said to be of %q (%s)", revision, why)
	}
}

func TestArgoRevision(t *testing.T) {
	one, two := strings.Repeat("a", 40), strings.Repeat("b", 40)
	const listed = "resources: [{group: operatingsystemmanager.k8c.io, kind: OperatingSystemProfile, namespace: kube-system, name: osp-a, status: STATUS}]"
	const source, moved = "source: {repoURL: https://git.example.com/a.git, path: p, targetRevision: TARGET}", "source: {repoURL: https://git.example.com/b.git, path: q, targetRevision: other}"
	in := func(status string) string { return strings.Replace(listed, "STATUS", status, 1) }
	for name, c := range map[string]struct {
		spec, status, target, revision, why string
		claim                               claim
	}{
		"synced":                                {source, "{" + in("Synced") + ", operationState: {phase: Succeeded, syncResult: {revision: " + two + ", " + source + ", " + in("Synced") + "}}}", "main", "main@sha1:" + two, "", claimed},
		"another source since":                  {moved, "{" + in("OutOfSync") + ", operationState: {phase: Succeeded, syncResult: {revision: " + two + ", " + source + ", " + in("Synced") + "}}}", "main", "main@sha1:" + two, "", claimed},
		"another source since, and history":     {moved, "{" + in("OutOfSync") + ", history: [{revision: " + one + ", " + source + "}], sync: {revision: " + two + ", comparedTo: {" + moved + "}}}", "main", "main@sha1:" + one, "", claimed},
		"while it syncs":                        {source, "{operationState: {phase: Running, operation: {sync: {revision: " + two + ", " + source + "}}}, sync: {revision: " + one + "}}", "main", "main@sha1:" + two, "", claimed},
		"while it syncs, and does not say what": {source, "{operationState: {phase: Running}, sync: {revision: " + one + "}}", "main", "main@sha1:" + one, "", claimed},
		"the last sync failed with it":          {source, "{" + in("OutOfSync") + ", history: [{revision: old}, {revision: " + one + "}], operationState: {phase: Failed, syncResult: {revision: " + two + ", " + in("SyncFailed") + "}}}", "", "HEAD@sha1:" + one, "", claimed},
		"the last sync left it out":             {source, "{" + in("Synced") + ", history: [{revision: " + one + "}], operationState: {phase: Succeeded, syncResult: {revision: " + two + "}}}", "main", "main@sha1:" + one, "", claimed},
		"a commit is followed":                  {source, "{" + in("Synced") + ", sync: {revision: " + one + "}}", one, "sha1:" + one, "", claimed},
		"SHA-256":                               {source, "{" + in("Synced") + ", sync: {revision: " + strings.Repeat("c", 64) + "}}", "main", "main@sha256:" + strings.Repeat("c", 64), "", claimed},
		"a chart":                               {source, "{" + in("Synced") + ", sync: {revision: 1.2.3}}", "1.x", "1.2.3", "", claimed},
		"not its object":                        {source, "{sync: {revision: " + one + "}}", "main", "", "does not list", denied},
		"nothing yet":                           {source, "{" + in("OutOfSync") + "}", "main", "", "no revision yet", claimed},
		"several sources":                       {"sources: [{repoURL: a}, {repoURL: b}]", "{" + in("Synced") + ", operationState: {phase: Succeeded, syncResult: {revisions: [x, y], sources: [{repoURL: a}, {repoURL: b}], " + in("Synced") + "}}}", "", "", "several sources", claimed},
		"several sources, and nothing yet":      {"sources: [{repoURL: a}, {repoURL: b}]", "{" + in("OutOfSync") + "}", "", "", "several sources", claimed},
	} {
		t.Run(name, func(t *testing.T) {
			app := decoded(t, strings.ReplaceAll("spec: {"+c.spec+"}\nstatus: "+c.status, "TARGET", c.target))
			f, claim := originFromArgo(app, profileWith(nil, nil), true)
			if f.Revision != c.revision || !strings.Contains(f.Why, c.why) || (f.Why == "") != (c.why == "") || claim != c.claim {
				t.Errorf("got %+v, %d", f, claim)
			}
			if f.Revision != "" && f.Repository+" "+f.Path != "https://git.example.com/a.git p/" {
				t.Errorf("it is said to be from %s %s", f.Repository, f.Path)
			}
		})
	}
	running := decoded(t, "status: {operationState: {phase: Running}, sync: {revision: "+one+"}}")
	if f, claim := originFromArgo(running, profileWith(nil, nil), false); claim != denied {
		t.Errorf("by a label that others set, one that syncs something has it: %+v", f)
	}
	if f := (&argoSource{"repoURL": "https://charts.example.com", "chart": "osps"}).originAt("1.2.3"); f.Path != "" {
		t.Errorf("a chart is in folder %q", f.Path)
	}
}

// security.md 28: what others write is made fit to be read.
func TestPlaces(t *testing.T) {
	for in, want := range map[string]string{"": "./", "./": "./", "./profiles": "profiles/", "/a/../b/": "b/", "../../etc": "etc/", "a\x1b[31m": "a[31m/"} {
		if got := folderPathWithSlash(in); got != want {
			t.Errorf("folder(%q) is %q, want %q", in, got, want)
		}
	}
	if got := cleanURL("https://user:canary@git.example.com/a.git?token=canary"); got != "https://git.example.com/a.git" { // security.md 14
		t.Errorf("got %q", got)
	}
}
