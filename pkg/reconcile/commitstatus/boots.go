package commitstatus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// maxFailedCommits is the number of commits of a source that fail at the same time.
const maxFailedCommits = 20

// commitID matches what a host takes as a commit.
var commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// boots are the commits of a source whose machines do not boot.
type boots struct {
	failed map[string]string // where a script of the commit fails, by commit
	sent   map[string]State  // the status that the host has of earlier commits
	next   time.Time         // when a boot counts as failed, zero for none
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

// observeBoots returns the commits of a job's source whose machines do not boot, by the BootReports:
// the boot controller retains a failure in them until machines join.
func (s *Statuses) observeBoots(ctx context.Context, j job) (boots, error) {
	out := boots{failed: map[string]string{}, sent: j.boots.sent}
	reports := s.reports.Load()
	if reports == nil {
		return out, nil
	}
	var list api.BootReportList // belongs to the cache: do not modify it
	if err := (*reports).List(ctx, &list, client.InNamespace(api.NamespaceCloudInitSettings), client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing BootReports: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b api.BootReport) int { return strings.Compare(a.Name, b.Name) }) // a cache has no order
	now := time.Now()
	for i := range list.Items {
		for _, m := range list.Items[i].Status.Machines {
			if m.Outcome != api.BootFailing {
				continue
			}
			if from := m.CountsFrom(); now.Before(from) {
				if out.next.IsZero() || from.Before(out.next) {
					out.next = from
				}
				continue
			}
			for _, commit := range j.commitsOf(m) {
				if out.failed[commit] == "" && len(out.failed) < maxFailedCommits {
					out.failed[commit] = describeBoot(m.Cause)
				}
			}
		}
	}
	return out, nil
}

// commitsOf returns the commits of the job's source that a boot tells about: the one with the
// content of its profile, and the latest one if that made this content current.
func (j job) commitsOf(m api.MachineBootStatus) []string {
	ours := slices.ContainsFunc(j.source.Status.Profiles, func(e api.ProfileEntry) bool { return e.Name == m.Profile })
	if !ours {
		return nil
	}
	var out []string
	if entry, ok := j.changed[m.Profile]; ok && entry.Version == m.Version {
		out = append(out, j.commit)
	}
	if m.Cause != nil && m.Cause.Commit != j.commit && commitID.MatchString(m.Cause.Commit) {
		out = append(out, m.Cause.Commit)
	}
	return out
}

// describeBoot says where a script fails. No output and no command leave the cluster.
func describeBoot(cause *api.BootCause) string {
	text := "machines do not boot"
	if c := cause.String(); c != "" {
		text += ": " + c
	}
	return truncate(text, maxDescription)
}

// sendBootStatuses sends Failure for commits before the job's with machines that do not boot, and
// Success once machines boot again. It records in the job what the host has. desiredStatus has the
// boots of the job's own commit.
func (s *Statuses) sendBootStatuses(ctx context.Context, j *job, statusContext string) error {
	if len(j.boots.failed)+len(j.boots.sent) == 0 {
		return nil
	}
	sent := maps.Clone(j.boots.sent) // the original is shared with other copies of the job
	if sent == nil {
		sent = map[string]State{}
	}
	j.boots.sent = sent
	send := func(commit string, state State, description string) error {
		if commit == j.commit || sent[commit] == state {
			return nil
		}
		earlier := job{source: j.source, commit: commit}
		err := s.sendStatus(ctx, &earlier, status{commit: commit, state: state, context: statusContext, description: description})
		var final *rejectedError
		if err == nil || errors.As(err, &final) {
			sent[commit] = state // a rejected one is not sent again
		}
		return err
	}
	for _, commit := range slices.Sorted(maps.Keys(j.boots.failed)) {
		if err := send(commit, Failure, j.boots.failed[commit]); err != nil {
			return err
		}
	}
	for _, commit := range slices.Sorted(maps.Keys(sent)) {
		if j.boots.failed[commit] != "" {
			continue
		}
		if err := send(commit, Success, "machines boot again"); err != nil {
			return err
		}
		delete(sent, commit)
	}
	return nil
}
