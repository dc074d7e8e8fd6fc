package downloads_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/lint/downloads"
	"github.com/osm-gitops/osm-gitops/pkg/lint/mirrored"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// TestMirrorsOfOurselves: a site that mirrors the output of bundle lacks nothing.
func TestMirrorsOfOurselves(t *testing.T) {
	for name, provider := range ours {
		list, err := downloads.FindWithPlaceholders(render.NewEngine(), input(t, name, provider))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := list.WriteMirrorList(&b); err != nil {
			t.Fatal(err)
		}
		m, err := mirrored.Parse("mirrors.txt", []byte(b.String()))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, i := range list.Items {
			if why := m.MissingReason(i); why != "" {
				t.Errorf("%s: %s %s", name, i, why)
			}
		}
		if got := m.KubeletVersions(); !slices.Equal(got, []string{"1.36.2"}) {
			t.Errorf("%s: kubelets %v", name, got)
		}
	}
}
