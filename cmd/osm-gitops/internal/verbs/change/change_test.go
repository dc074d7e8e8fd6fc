package change

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/verbs/session"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// A release counts for every profile of its source, and the list of versions can be cut.
func TestCheckRelease(t *testing.T) {
	const replaces = "releases v1.7.0@2 already, which this replaces"
	for name, c := range map[string]struct {
		version, present string
		rollouts         []api.RolloutStatus
		listed           int
		refused, warned  string
	}{
		"the first":                       {version: "v1.1.0"},
		"the same version in other waves": {version: "v1.1.0", present: "v1.1.0@0"},
		"another version":                 {version: "v1.1.0", present: "v1.7.0@2", refused: replaces},
		"its own rollout":                 {version: "v1.1.0", rollouts: []api.RolloutStatus{rollout("osp-a", "v1.1.0", false)}},
		"a finished rollout":              {version: "v1.1.0", rollouts: []api.RolloutStatus{rollout("osp-b", "v1.1.0", true)}},
		"another profile's version":       {version: "v1.1.0", rollouts: []api.RolloutStatus{rollout("osp-b", "v1.2.0", false)}},
		"another profile has it": {
			version: "v1.1.0", rollouts: []api.RolloutStatus{rollout("osp-b", "v1.1.0", false), rollout("osp-c", "v1.1.0", false)},
			refused: "v1.1.0 also releases the unfinished rollouts of osp-b, osp-c",
		},
		"not in a whole list":                  {version: "v7.0.0", listed: api.MaxListedVersions - 2, refused: `has no version "v7.0.0"; it has`},
		"not in a list that can be incomplete": {version: "v7.0.0", listed: api.MaxListedVersions - 1, warned: `version "v7.0.0" is not listed by ProfileSource kube-system/osps for profile "osp-a"`},
	} {
		t.Run(name, func(t *testing.T) {
			ps := &api.ProfileSource{}
			ps.Namespace, ps.Name = "kube-system", "osps"
			ps.Status.Rollouts = c.rollouts
			entry := api.ProfileEntry{Name: "osp-a", Version: "v1.1.0"}
			for i := range c.listed {
				entry.Versions = append(entry.Versions, fmt.Sprintf("v0.%d.0", i))
			}
			ps.Status.Profiles = []api.ProfileEntry{entry}
			var errs bytes.Buffer
			change := &change{changeFlags: &changeFlags{}, errs: &errs, of: session.Ref{Namespace: ps.Namespace, Name: ps.Name}}
			change.checkRelease(ps, selection.Candidate{Entry: entry, Source: ps}, c.version, c.present)
			refused := ""
			if err := change.resolveRejections(); err != nil {
				refused = err.Error()
			}
			for _, text := range []struct{ got, want string }{{refused, c.refused}, {errs.String(), c.warned}} {
				if !strings.Contains(text.got, text.want) || (text.got == "") != (text.want == "") {
					t.Errorf("got %q, want %q", text.got, text.want)
				}
			}
			change.force = true
			if err := change.resolveRejections(); err != nil || !strings.Contains(errs.String(), c.refused) {
				t.Errorf("with --force: %v, and %q is printed", err, errs.String())
			}
		})
	}
}

func rollout(profile, version string, done bool) api.RolloutStatus {
	return api.RolloutStatus{Profile: profile, RolloutVersion: api.RolloutVersion{Version: version}, Done: done}
}

func TestHandled(t *testing.T) {
	const own = "2026-11-23T10:00:00.5Z"
	for last, want := range map[string]bool{
		"": false, own: true, "2026-11-23T10:00:00.4Z": false, "2026-11-23T11:00:00.6+01:00": true, "later": false,
	} {
		if got := isRequestHandled(last, own); got != want {
			t.Errorf("after %q: %t", last, got)
		}
	}
}
