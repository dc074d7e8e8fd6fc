package commitstatus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

const (
	// settleTime is how long a commit remains pending while pools do not follow; then the
	// description can be "11 of 12 pools rotated".
	settleTime = 60 * time.Second
	// rejectionGrace is how long a pool can reject before it accepts: it can have rejected the
	// state before this commit.
	rejectionGrace = 5 * time.Second
	// workers is the number of sources whose hosts are called concurrently.
	workers = 4
	// recount is the time between two counts of the pools.
	recount = 500 * time.Millisecond
	// maxTries limits the attempts for one status; with back-off they take an hour.
	maxTries = 12
	// Back-off after a host that does not answer.
	firstRetry, lastRetry = time.Second, 10 * time.Minute
)

// Reconciliation is the result of one reconciliation of a source.
type Reconciliation struct {
	// Source is the ProfileSource with its new status.
	Source *api.ProfileSource
	// Revision that was read.
	Revision string
	// Changed are the profiles whose current version changed.
	Changed []api.ProfileEntry
	// Problems are the rejected files.
	Problems []error
	// Rejected says why nothing of the commit was applied: it lacks the required
	// signature, or rewrites history.
	Rejected error
}

// Statuses sends commit statuses. Its exported fields are set once, before Start.
type Statuses struct {
	// Client reads through the manager's cache.
	Client client.Client
	// Namespace is that of the controller.
	Namespace string
	// Pools returns a reader of the Secrets of pools, or nil until their cluster answers. A nil
	// function says that there are no pools: then a commit waits for none.
	Pools func() client.Reader
	// Live reads the Secrets of webhooks, which are not cached.
	Live client.Reader
	// Remote reads the credentials and the proxy of a source, which its statuses also
	// use; nil means none.
	Remote func(ctx context.Context, ps *api.ProfileSource) (source.Remote, error)
	// Recorder emits events about statuses that a host rejects.
	Recorder events.EventRecorder
	// Cluster is the name of this cluster, in the context of every status.
	Cluster string
	// AllowedCIDRs are addresses to connect to although they are loopback, link-local or
	// otherwise rejected.
	AllowedCIDRs []netip.Prefix
	// AllowInsecure allows an API at a plain http URL.
	AllowInsecure bool

	reports  atomic.Pointer[client.Reader] // of BootReports; nil until they can be read
	once     sync.Once
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	mu       sync.Mutex
	latest   map[types.NamespacedName]job
	reported map[types.NamespacedName]string // the credentials for which an event was emitted
}

// job is the state of the latest commit of a source.
type job struct {
	source        *api.ProfileSource
	commit        string
	changed       map[string]api.ProfileEntry
	problems      []error
	rejected      string    // why the whole commit is rejected
	since         time.Time // of the first reconciliation of this commit
	sent          State     // the latest one that the host has, "" for none
	failedAttempt string    // the latest one that the host rejected, with the Secret that was used
	boots         boots
}

// commitOf matches the commit in a revision such as "main@sha1:<40 hex>".
var commitOf = regexp.MustCompile(`@sha1:([0-9a-f]{40})$`)

// EnqueueReconciliation takes the result of a reconciliation, and returns at once.
func (s *Statuses) EnqueueReconciliation(l Reconciliation) {
	s.init()
	ps := l.Source
	key := client.ObjectKeyFromObject(ps)
	m := commitOf.FindStringSubmatch(l.Revision)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m == nil || ps.Spec.Git == nil || ps.Spec.Webhook == nil || !isSupportedProvider(ps.Spec.Webhook.Provider) {
		delete(s.latest, key)
		delete(s.reported, key)
		return
	}
	next := job{source: ps.DeepCopy(), commit: m[1], changed: map[string]api.ProfileEntry{}, problems: l.Problems, since: time.Now(), boots: storedBoots(ps)}
	if l.Rejected != nil {
		next.rejected = abbreviateCommits(redact.PrintableLine(l.Rejected.Error()))
	}
	if before, ok := s.latest[key]; ok && before.source.UID == ps.UID {
		next.boots = before.boots
		// The same commit continues with what was already sent and counted.
		if before.commit == next.commit {
			next.changed = maps.Clone(before.changed)
			next.since = before.since
			next.sent = before.sent
			next.failedAttempt = before.failedAttempt
		}
	}
	for _, e := range ps.Status.Profiles {
		// After a restart nothing has changed, but this commit introduced it.
		if e.SelectedBy == next.commit && !e.Removed {
			next.changed[e.Name] = e
		}
	}
	for _, e := range l.Changed {
		next.changed[e.Name] = e
	}
	s.latest[key] = next
	if next.sent == "" || next.sent != next.stateFromProblems() {
		s.queue.Add(key)
	}
}

// stateFromProblems is the final state of the job, as far as files decide it.
func (j job) stateFromProblems() State {
	if len(j.problems) > 0 || j.rejected != "" {
		return Failure
	}
	return Success
}

func (s *Statuses) init() {
	s.once.Do(func() {
		s.latest, s.reported = map[types.NamespacedName]job{}, map[types.NamespacedName]string{}
		s.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry))
	})
}

// Start sends statuses until ctx ends. It is for a manager's Add.
func (s *Statuses) Start(ctx context.Context) error {
	s.init()
	go func() {
		<-ctx.Done()
		s.queue.ShutDown()
	}()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				key, down := s.queue.Get()
				if down {
					return
				}
				s.processSource(ctx, key)
				s.queue.Done(key)
			}
		})
	}
	group.Wait()
	return nil
}

// processSource sends the current status of one source's commit.
func (s *Statuses) processSource(ctx context.Context, key types.NamespacedName) {
	s.mu.Lock()
	j, ok := s.latest[key]
	s.mu.Unlock()
	if !ok {
		s.queue.Forget(key)
		return
	}
	// j is a copy, so that Reconciled does not wait for a slow host.
	want, settled, err := s.desiredStatus(ctx, j)
	if err == nil && want.state != j.sent {
		err = s.sendStatus(ctx, &j, want)
	}
	if s.reportRejected(key, j, err) {
		settled, err = true, nil
	}
	if err == nil {
		err = s.sendBootStatuses(ctx, key, &j)
	}
	if ctx.Err() != nil {
		return
	}
	s.recordSendResult(key, j)
	switch {
	case errors.Is(err, errOff):
		s.queue.Forget(key)
	case err != nil && s.queue.NumRequeues(key) < maxTries:
		log.FromContext(ctx).Info("sending a commit status, retrying", "source", key.String(), "commit", j.commit, "error", err.Error())
		s.queue.AddRateLimited(key)
	case err != nil: // the next reconciliation retries
		s.queue.Forget(key)
		log.FromContext(ctx).Error(err, "sending a commit status", "source", key.String(), "commit", j.commit)
	default:
		s.queue.Forget(key)
		if !settled {
			s.queue.AddAfter(key, recount)
		} else if !j.boots.next.IsZero() {
			s.queue.AddAfter(key, time.Until(j.boots.next)+recount)
		}
	}
}

// reportRejected reports whether an error is the rejection of a job's status, for which it emits an event.
func (s *Statuses) reportRejected(key types.NamespacedName, j job, err error) bool {
	var final *rejectedError
	if !errors.As(err, &final) {
		return false
	}
	if s.recordIfUnreported(key, final) {
		s.Recorder.Eventf(j.source, nil, corev1.EventTypeWarning, api.EventCommitStatusRefused, "Report", "%s",
			redact.Shorten(fmt.Sprintf("commit status of %s: %v", j.commit, err), redact.MaxEvent))
	}
	return true
}

// recordIfUnreported reports whether a rejection was not reported yet, or must be reported each time.
func (s *Statuses) recordIfUnreported(key types.NamespacedName, rejected *rejectedError) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rejected.once != "" && s.reported[key] == rejected.once {
		return false
	}
	if s.reported[key] = rejected.once; rejected.once == "" {
		delete(s.reported, key)
	}
	return true
}

// recordSendResult stores which status the host has, and the failed attempt, unless another commit
// arrived in the meantime. The statuses of boots belong to several commits and are always stored.
func (s *Statuses) recordSendResult(key types.NamespacedName, j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ok := s.latest[key]
	if !ok || now.source.UID != j.source.UID {
		return
	}
	now.boots = j.boots
	if now.commit == j.commit {
		now.sent, now.failedAttempt = j.sent, j.failedAttempt
	}
	s.latest[key] = now
}

// desiredStatus returns the status that the commit should have, and whether it is final.
func (s *Statuses) desiredStatus(ctx context.Context, j job) (want status, settled bool, err error) {
	want = status{commit: j.commit, state: j.stateFromProblems()}
	if want.context, err = s.contextOf(ctx, "osm-gitops", j.source); err != nil {
		return want, false, err
	}
	if j.rejected != "" {
		want.description = truncate("refused: "+j.rejected, maxDescription)
		return want, true, nil
	}
	if want.state == Failure {
		first := redact.PrintableLine(j.problems[0].Error())
		want.description = truncate(fmt.Sprintf("%s: %s", phrase.Count(len(j.problems), "problem"), first), maxDescription)
		return want, true, nil
	}
	profiles := 0
	for _, e := range j.source.Status.Profiles {
		if !e.Removed {
			profiles++
		}
	}
	if s.Pools == nil {
		want.description = phrase.Count(profiles, "profile") + " applied"
		return want, true, nil
	}
	f, err := readRolloutProgress(ctx, s.Client, s.Pools(), j.source.Namespace, j.changed)
	if err != nil {
		return want, false, err
	}
	waited := time.Since(j.since)
	settled = f.rotated == f.pools || f.settled() && waited > rejectionGrace || waited > settleTime
	switch {
	case !settled:
		want.state = Pending
	case f.rejected > 0:
		want.state = Failure
	}
	want.description = f.describe(profiles)
	return want, settled, nil
}

// contextOf returns <name>/<cluster>. If several sources use one repository, each has
// its own context: otherwise one's success would hide another's failure.
func (s *Statuses) contextOf(ctx context.Context, name string, ps *api.ProfileSource) (string, error) {
	if s.Cluster != "" {
		name += "/" + s.Cluster
	}
	var list api.ProfileSourceList
	if err := s.Client.List(ctx, &list, client.InNamespace(ps.Namespace)); err != nil {
		return "", fmt.Errorf("listing ProfileSources: %w", err)
	}
	shared := slices.ContainsFunc(list.Items, func(other api.ProfileSource) bool {
		return other.Name != ps.Name && other.Spec.Git != nil && other.Spec.Webhook != nil && githost.IsSameRepository(other.Spec.Git.URL, ps.Spec.Git.URL)
	})
	if shared {
		name += "/" + ps.Name
	}
	return name, nil
}

// fullID matches full commit ids, which take much of a description.
var fullID = regexp.MustCompile(`\b([0-9a-f]{12})[0-9a-f]{28}\b`)

func abbreviateCommits(s string) string { return fullID.ReplaceAllString(s, "$1") }

// truncate shortens text to at most n characters.
func truncate(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
