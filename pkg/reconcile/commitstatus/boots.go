package commitstatus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// maxFailedCommits is the number of commits of a source that fail at the same time. Further ones fail once
// the machines of these boot again.
const maxFailedCommits = 20

// bootsContext begins the context of statuses about boots: the other one says what became of a commit's
// files and pools, which boots do not change.
const bootsContext = "osm-gitops-boots"

// boots are the commits of a source whose machines do not boot.
type boots struct {
	sent   map[string]job // what the host has of a commit, by its id
	stored []string       // status.failedCommits of the source
	next   time.Time      // when a boot counts as failed, zero for none
}

// storedBoots returns the commits whose failure a controller reported before this one started.
func storedBoots(ps *api.ProfileSource) boots {
	out := boots{sent: map[string]job{}, stored: ps.Status.FailedCommits}
	for _, commit := range out.stored {
		if _, err := source.ParseCommit(commit); err == nil { // users may write a status
			out.sent[commit] = job{sent: Failure}
		}
	}
	return out
}

// WatchBootReports lets commits whose machines do not boot fail. It is called once reports, a cache
// that was started, can list the kind.
func (s *Statuses) WatchBootReports(ctx context.Context, reports cache.Cache) error {
	s.init()
	informer, err := reports.GetInformer(ctx, &api.BootReport{})
	if err != nil {
		return fmt.Errorf("watching BootReports for commit statuses: %w", err)
	}
	var reader client.Reader = reports
	s.reports.Store(&reader)
	enqueue := func(any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for key := range s.latest {
			s.queue.AddAfter(key, recount)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, now any) { enqueue(now) }, DeleteFunc: enqueue,
	})
	if err != nil {
		return fmt.Errorf("watching BootReports for commit statuses: %w", err)
	}
	return nil
}

// failedCommits returns the commits of a job's source whose machines do not boot, with the place where
// a script fails, and when another boot counts as failed. The boot controller retains a failure in
// the BootReports until machines join. The map is nil until they can be read.
func (s *Statuses) failedCommits(ctx context.Context, j *job) (failed map[string]string, next time.Time, err error) {
	reports := s.reports.Load()
	if reports == nil {
		return nil, next, nil
	}
	var list api.BootReportList // belongs to the cache: do not modify it
	if err := (*reports).List(ctx, &list, client.InNamespace(api.NamespaceCloudInitSettings), client.UnsafeDisableDeepCopy); err != nil {
		return nil, next, fmt.Errorf("listing BootReports: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b api.BootReport) int { return strings.Compare(a.Name, b.Name) }) // a cache has no order
	failed = map[string]string{}
	now := time.Now()
	for i := range list.Items {
		for _, m := range list.Items[i].Status.Machines {
			if m.Outcome != api.BootFailing || !s.isOurs(j, m) {
				continue
			}
			if from := m.CountsFrom(); now.Before(from) {
				if next.IsZero() || from.Before(next) {
					next = from
				}
				continue
			}
			commits := []string{m.SelectedBy}
			if m.Cause != nil {
				commits = append(commits, m.Cause.Commit)
			}
			for _, commit := range commits {
				if _, err := source.ParseCommit(commit); err == nil && failed[commit] == "" {
					failed[commit] = describeBoot(m.Cause)
				}
			}
		}
	}
	return failed, next, nil
}

// isOurs reports whether a boot is of a profile of the job's source.
func (s *Statuses) isOurs(j *job, m api.MachineBootStatus) bool {
	return cmp.Or(m.ProfileNamespace, s.Namespace) == j.source.Namespace &&
		slices.ContainsFunc(j.source.Status.Profiles, func(e api.ProfileEntry) bool { return e.Name == m.Profile })
}

// describeBoot says where a script fails. No output and no command leave the cluster.
func describeBoot(cause *api.BootCause) string {
	text := "machines do not boot"
	if c := cause.String(); c != "" {
		text += ": " + c
	}
	return truncate(text, maxDescription)
}

// sendBootStatuses sends Failure for the commits whose machines do not boot, and Success once they
// boot again. It records in the job what the host has. A commit whose status the host rejects does not
// keep those of others from being sent.
func (s *Statuses) sendBootStatuses(ctx context.Context, key types.NamespacedName, j *job) error {
	failed, next, err := s.failedCommits(ctx, j)
	j.boots.next = next
	if err != nil || failed == nil || len(failed)+len(j.boots.sent) == 0 {
		return err
	}
	name, err := s.contextOf(ctx, bootsContext, j.source)
	if err != nil {
		return err
	}
	j.boots.sent = maps.Clone(j.boots.sent) // the original is shared with other copies of the job
	ended := slices.DeleteFunc(slices.Sorted(maps.Keys(j.boots.sent)), func(commit string) bool { return failed[commit] != "" })
	for _, commit := range append(ended, slices.Sorted(maps.Keys(failed))...) { // the first ones make room for others
		about, ok := j.boots.sent[commit]
		if !ok && j.boots.countHeld() >= maxFailedCommits {
			continue
		}
		about.source, about.commit = j.source, commit
		want := status{commit: commit, state: Success, context: name, description: "machines boot again"}
		if text := failed[commit]; text != "" {
			want.state, want.description = Failure, text
		} else if about.sent != Failure { // as after a rejection
			delete(j.boots.sent, commit)
			continue
		}
		if about.sent != want.state {
			if err = s.sendStatus(ctx, &about, want); err != nil && !s.reportRejected(key, about, err) {
				break
			}
			err = nil
		}
		if j.boots.sent[commit] = about; about.sent == Success {
			delete(j.boots.sent, commit)
		}
	}
	return errors.Join(err, s.storeBoots(ctx, j))
}

// countHeld returns the number of commits for which the host has a failure, without those whose end it rejects.
func (b boots) countHeld() (n int) {
	for _, about := range b.sent {
		if about.failedAttempt == "" {
			n++
		}
	}
	return n
}

// storeBoots records on the source for which commits the host has a failure, so that a controller which
// starts again reports its end.
func (s *Statuses) storeBoots(ctx context.Context, j *job) error {
	var red []string
	for commit, about := range j.boots.sent {
		if about.sent == Failure && about.failedAttempt == "" {
			red = append(red, commit)
		}
	}
	slices.Sort(red)
	red = red[:min(len(red), maxFailedCommits)]
	if slices.Equal(red, j.boots.stored) {
		return nil
	}
	ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: j.source.Namespace, Name: j.source.Name}}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": j.source.UID}, "status": map[string]any{"failedCommits": red}})
	if err == nil {
		err = s.Client.Status().Patch(ctx, ps, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(api.FieldManager))
	}
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // of another source with the name
		return fmt.Errorf("storing the failed commits of ProfileSource %s/%s: %w", ps.Namespace, ps.Name, err)
	}
	j.boots.stored = red
	return nil
}
