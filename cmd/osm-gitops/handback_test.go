package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/handback"
)

// The audit log has an entry for a handback that failed halfway and one for the handback
// that succeeded.
func TestHandbackAuditLog(t *testing.T) {
	f := &handbackFlags{namespace: "kube-system", auditLog: filepath.Join(t.TempDir(), "audit.log")}
	var broken error
	plan := &handback.Plan{Steps: []handback.Step{
		{What: "first", Run: func(context.Context) error { return nil }},
		{What: "second", Run: func(context.Context) error { return broken }},
		{What: "third", Run: func(context.Context) error { return nil }},
	}}
	broken = errors.New("the API server is away")
	if err := f.apply(t.Context(), plan, func(string) {}); !errors.Is(err, broken) {
		t.Errorf("it came to %v", err)
	}
	broken = nil
	if err := f.apply(t.Context(), plan, func(string) {}); err != nil {
		t.Error(err)
	}
	var got []string
	if _, err := auditlog.Verify([]string{f.auditLog}, "", func(e auditlog.Entry) {
		got = append(got, string(e.Kind)+" "+e.Reason+": "+e.Message)
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"HandedBack Failed: preparing the cluster for operating-system-manager failed at step 2 of 3",
		"HandedBack : the cluster was prepared for operating-system-manager: 3 steps",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
