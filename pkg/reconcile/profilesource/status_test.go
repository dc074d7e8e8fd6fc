package profilesource

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// How kstatus, and with it Flux, Argo CD and kubectl wait, reads every status.
func TestStatusAsKstatusReadsIt(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(ps *api.ProfileSource)
		want status.Status
	}{
		"never reconciled": {func(ps *api.ProfileSource) { ps.Status.ObservedGeneration = -1 }, status.InProgressStatus},
		"applied":          {func(ps *api.ProfileSource) { setOutcome(ps, outcome{revision: "main@sha1:1"}) }, status.CurrentStatus},
		"files refused": {func(ps *api.ProfileSource) {
			setOutcome(ps, outcome{revision: "r", rejected: []error{errors.New("x")}})
		}, status.FailedStatus},
		"server away":    {func(ps *api.ProfileSource) { fail(ps, fmt.Errorf("x: %w", source.ErrUnreachable)) }, status.InProgressStatus},
		"wrong password": {func(ps *api.ProfileSource) { fail(ps, fmt.Errorf("x: %w", source.ErrAuthentication)) }, status.FailedStatus},
		"no such branch": {func(ps *api.ProfileSource) { fail(ps, fmt.Errorf("x: %w", source.ErrNotFound)) }, status.FailedStatus},
		"a spec that cannot be": {func(ps *api.ProfileSource) {
			fail(ps, &fetcher.SpecError{Reason: api.ReasonSourceInvalid, Err: errors.New("x")})
		}, status.FailedStatus},
		"API server away":   {func(ps *api.ProfileSource) { fail(ps, errors.New("x")) }, status.InProgressStatus},
		"healed":            {func(ps *api.ProfileSource) { fail(ps, source.ErrAuthentication); setOutcome(ps, outcome{}) }, status.CurrentStatus},
		"failed after that": {func(ps *api.ProfileSource) { setOutcome(ps, outcome{}); fail(ps, source.ErrUnreachable) }, status.InProgressStatus},
		"a new spec":        {func(ps *api.ProfileSource) { setOutcome(ps, outcome{}); ps.Generation++ }, status.InProgressStatus},
	} {
		t.Run(name, func(t *testing.T) {
			ps := api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Name: "osps", Generation: 2}}
			c.set(&ps)
			raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&ps)
			if err != nil {
				t.Fatal(err)
			}
			got, err := status.Compute(&unstructured.Unstructured{Object: raw})
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != c.want {
				t.Errorf("kstatus reads %s, want %s: %s", got.Status, c.want, got.Message)
			}
			conditions := ps.Status.Conditions
			if apimeta.IsStatusConditionTrue(conditions, meta.StalledCondition) && apimeta.IsStatusConditionTrue(conditions, meta.ReconcilingCondition) {
				t.Error("Stalled and Reconciling together")
			}
			for _, cond := range conditions {
				if cond.ObservedGeneration != 2 {
					t.Errorf("%s is of generation %d", cond.Type, cond.ObservedGeneration)
				}
				if (cond.Type == meta.StalledCondition || cond.Type == meta.ReconcilingCondition) && cond.Status != metav1.ConditionTrue {
					t.Errorf("%s is there and not True", cond.Type)
				}
			}
		})
	}
}

func fail(ps *api.ProfileSource, err error) { setFailed(ps, classify(err), err.Error()) }
