package dryrun

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

const (
	// observeInterval is the time between two dry runs of an Observer, jittered: a
	// repository is then read once a minute, as with a ProfileSource's usual interval.
	observeInterval = time.Minute
	observeJitter   = 0.1
	// observeShare limits the time for dry runs if there are many pools: a dry run takes
	// at most this fraction of the time.
	observeShare = 10
)

// Observer repeats dry runs, and reports on each ProfileSource what the controller would
// do. It writes only the condition Observed.
type Observer struct {
	// Run does one dry run.
	Run func(ctx context.Context) (*Report, error)
	// Client reads ProfileSources, and patches their status.
	Client client.Client
	// Namespace is the controller's, and Shard selects the ProfileSources to handle.
	Namespace string
	Shard     shard.Shard

	logged string // the latest logged summary
}

// Start observes until ctx ends. It makes Observer a manager.Runnable that waits for the
// lease.
func (o *Observer) Start(ctx context.Context) error {
	for {
		began := time.Now()
		if err := o.runAndUpdateConditions(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "observing")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait.Jitter(max(observeInterval, (observeShare-1)*time.Since(began)), observeJitter)):
		}
	}
}

// runAndUpdateConditions runs one dry run, and writes its result to a condition of each
// ProfileSource.
func (o *Observer) runAndUpdateConditions(ctx context.Context) error {
	report, err := o.Run(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var list api.ProfileSourceList
	if err := o.Client.List(ctx, &list, client.InNamespace(o.Namespace)); err != nil {
		return fmt.Errorf("listing ProfileSources: %w", err)
	}
	for i := range list.Items {
		ps := &list.Items[i]
		if !o.Shard.Includes(ps) {
			continue
		}
		next := metav1.Condition{Type: api.ObservedCondition, Status: metav1.ConditionUnknown, Reason: api.ReasonNotObserved, ObservedGeneration: ps.Generation}
		if err != nil {
			next.Message = "unknown what would be done: " + redact.CleanMessage(err.Error())
		} else {
			report.setCondition(ps, &next)
		}
		next.Message = redact.Shorten(redact.RemoveControlChars(next.Message), redact.MaxCondition)
		if err := o.patchCondition(ctx, ps, next); err != nil {
			return err
		}
	}
	if err == nil && report.Summary() != o.logged {
		o.logged = report.Summary()
		log.FromContext(ctx).Info("observed what would be done", "would", o.logged)
	}
	return err
}

// patchCondition patches the condition, if it differs.
func (o *Observer) patchCondition(ctx context.Context, ps *api.ProfileSource, next metav1.Condition) error {
	before, after := ps.DeepCopy(), ps.DeepCopy()
	apimeta.SetStatusCondition(&after.Status.Conditions, next)
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := o.Client.Status().Patch(ctx, after, patch, client.FieldOwner(api.FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // a conflict: the next dry run retries
	}
	if err != nil {
		return fmt.Errorf("writing the condition of ProfileSource %s: %w", client.ObjectKeyFromObject(ps), err)
	}
	return nil
}

// setCondition writes to c what would be done about a ProfileSource and the pools of its profiles.
func (r *Report) setCondition(ps *api.ProfileSource, c *metav1.Condition) {
	i := slices.IndexFunc(r.Sources, func(s Source) bool { return s.Name == client.ObjectKeyFromObject(ps).String() })
	if i < 0 {
		c.Message = "it has not been reconciled yet"
		return
	}
	s := r.Sources[i]
	switch {
	case s.Problem != "":
		c.Message = s.Problem
		return
	case !s.Ready:
		c.Status = metav1.ConditionFalse
		c.Reason = s.Reason
		c.Message = "the controller would report: " + s.Message
		return
	}
	counted := Report{Sources: []Source{s}}
	counted.countNonStatusWrites(s.Writes)
	for _, p := range r.Pools {
		if slices.Contains(s.Profiles, p.Profile) {
			counted.Pools = append(counted.Pools, p)
			counted.countNonStatusWrites(p.Writes)
		}
	}
	c.Status, c.Reason = metav1.ConditionTrue, api.ReasonNothingToDo
	if counted.Writes > 0 {
		c.Reason = api.ReasonWouldChange
	}
	c.Message = "nothing is written; the controller would do this: " + s.Message + "; " + counted.Summary() + counted.poolsNeedingAttention()
}

// countNonStatusWrites counts all writes except those of a status.
func (r *Report) countNonStatusWrites(writes []Write) {
	for _, w := range writes {
		if w.Part != "status" {
			r.Writes++
		}
	}
}

// poolsNeedingAttention describes the pools that need attention, as an addition to a message.
func (r *Report) poolsNeedingAttention() string {
	var lines []string
	for _, p := range r.Pools {
		switch {
		case p.Problem != "":
			lines = append(lines, p.Name+" could not be checked: "+p.Problem)
		case p.Rejected != "":
			lines = append(lines, p.Name+" is rejected: "+p.Rejected)
		case p.hasEquivalence(EquivalenceOther), p.Replaced:
			lines = append(lines, p.Name+": "+p.Machines)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	const most = 20
	if n := len(lines) - most; n > 0 {
		lines = append(lines[:most], fmt.Sprintf("and %d more, see controller --dry-run", n))
	}
	return ":\n- " + strings.Join(lines, "\n- ")
}
