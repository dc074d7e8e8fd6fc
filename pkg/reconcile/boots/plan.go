package boots

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// bootLimit is how long reports of a machine count after its creation.
const bootLimit = takeover.BootTime

const (
	// maxEntries is the maximum of entries in spec and status, by the schema.
	maxEntries = 32
	// maxLate is the number of entries in the spec above which those of machines that exceeded
	// bootLimit are removed, so that others can report.
	maxLate = maxEntries / 2
)

// plan is what happens to the report of a pool.
type plan struct {
	create bool
	// status has the new conclusions.
	status []api.MachineBootStatus
	// retained are the entries of the spec if some are removed.
	retained []api.MachineBoot
	trim     bool
	failures []failure // new ones
	// next is when to run again, zero for never.
	next time.Duration
}

// failure is one that was not reported before.
type failure struct {
	status                    api.MachineBootStatus
	firstOfCause, firstOfBoot bool
}

// newPlan plans what to write for a pool. It creates the report when the first machine without a
// Node appears. Otherwise it takes the entries that machines wrote one by one: entries of machines that
// are gone are removed, the others become the status, with what was concluded about them before, and
// failures that it does not have yet are reported.
func newPlan(seen *observed) plan {
	if seen.report == nil {
		p := plan{}
		for _, m := range seen.machines {
			p.create = p.create || !m.joined() && m.DeletionTimestamp.IsZero() && !seen.isLate(m)
		}
		return p
	}
	p := plan{retained: []api.MachineBoot{}}
	for i := range seen.report.Spec.Machines {
		entry := &seen.report.Spec.Machines[i]
		if seen.gone[i] {
			p.trim = true
			continue
		}
		m := seen.machines[entry.Machine]
		p.retained = append(p.retained, *entry)
		before := seen.statusOf(entry.Machine, entry.Stage)
		if before != nil && before.MachineUID != m.UID {
			before = nil
		}
		if seen.entries[i] == nil {
			if !seen.isLate(m) {
				p.next = faultRetry // the cache can lack the configuration
			}
			if before != nil {
				p.status = append(p.status, *before)
			}
			continue
		}
		next := seen.conclude(i, m, before)
		p.status = append(p.status, next)
		if c := seen.causes[i]; c != nil {
			if c.retry {
				p.next = faultRetry
			}
			if same := before != nil && before.BootID == entry.BootID; !same || before.Cause == nil || *before.Cause != *next.Cause {
				p.failures = append(p.failures, failure{
					status: next, firstOfBoot: !same,
					firstOfCause: !slices.ContainsFunc(seen.report.Status.Machines, func(s api.MachineBootStatus) bool { return sameCause(s, next) }) && !slices.ContainsFunc(p.failures, func(f failure) bool { return sameCause(f.status, next) }),
				})
			}
		}
	}
	if len(p.retained) > maxLate {
		p.next = faultRetry // machines become late without an event
	}
	p.status = append(p.status, seen.lasting(p.status)...)
	slices.SortStableFunc(p.status, func(a, b api.MachineBootStatus) int {
		if c := a.Since.Compare(b.Since.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Machine+string(a.Stage), b.Machine+string(b.Stage))
	})
	return p
}

// lasting returns the failures without an entry that remain besides others: those of machines that have
// not joined, and the last one of each version whose machine is deleted, until a machine joins with
// it. What a commit broke does not seem repaired while machine-controller replaces the machine.
func (seen *observed) lasting(others []api.MachineBootStatus) []api.MachineBootStatus {
	type profileVersion struct{ profile, version string }
	joined, deleted := map[profileVersion]bool{}, map[profileVersion]bool{}
	for _, m := range seen.machines {
		if m.joined() {
			g, _ := seen.timeline.ForMachine(m.CreationTimestamp.Time, m.revision)
			joined[profileVersion{redact.PrintableLine(g.Profile), redact.PrintableLine(g.Version)}] = true
		}
	}
	var out []api.MachineBootStatus
	for _, s := range slices.Backward(seen.report.Status.Machines) {
		m, exists := seen.machines[s.Machine]
		exists = exists && m.UID == s.MachineUID
		of := profileVersion{s.Profile, s.Version}
		switch {
		case s.Outcome != api.BootFailing || seen.now.Before(s.CountsFrom()) || len(others)+len(out) >= maxEntries:
		case slices.ContainsFunc(others, func(o api.MachineBootStatus) bool { return o.Machine == s.Machine && o.Stage == s.Stage }):
		case exists && m.joined(), !exists && (joined[of] || deleted[of]):
		default:
			deleted[of] = deleted[of] || !exists
			out = append(out, s)
		}
	}
	return out
}

// conclude returns the status of an entry that counts. before is that of the same machine and stage,
// nil for none.
func (seen *observed) conclude(i int, m machine, before *api.MachineBootStatus) api.MachineBootStatus {
	entry, from := &seen.report.Spec.Machines[i], seen.entries[i]
	namespace, _, found := strings.Cut(from.Object, "/")
	if !found {
		namespace = ""
	}
	next := api.MachineBootStatus{
		Machine: entry.Machine, MachineUID: m.UID, Stage: entry.Stage, Outcome: entry.Outcome, BootID: entry.BootID, Attempt: entry.Attempt,
		Config: entry.Config, Profile: redact.PrintableLine(from.Profile), ProfileNamespace: namespace, Version: redact.PrintableLine(from.Version),
		SelectedBy: redact.PrintableLine(from.SelectedBy), Since: metav1.NewTime(seen.now).Rfc3339Copy(),
	}
	if before != nil {
		next.Journaled = before.Journaled
	}
	sameBoot := before != nil && before.BootID == entry.BootID
	switch {
	case sameBoot:
		next.Since, next.Cause = before.Since, before.Cause
	case before != nil && before.Outcome == api.BootFailing && next.Outcome == api.BootFailing:
		// The machine booted again and fails again, with attempts from 1. Its failure still counts, so that
		// a held wave does not go on meanwhile.
		next.Since = before.Since
		if limit := seen.now.Add(-api.BootFailingLimit); !before.CountsFrom().After(seen.now) && limit.Before(next.Since.Time) {
			next.Since = metav1.NewTime(limit).Rfc3339Copy()
		}
	}
	if c := seen.causes[i]; c != nil {
		// While the profile cannot be read, what is known of the same command remains.
		if c.retry && sameBoot && before.Cause != nil && before.Config == entry.Config && c.sameCommand(*before.Cause) {
			return next
		}
		next.Cause = &c.BootCause
	}
	return next
}

// statusPatch replaces the status of exactly the report that was read.
func statusPatch(report *api.BootReport, machines []api.MachineBootStatus) (client.Patch, error) {
	if machines == nil {
		machines = []api.MachineBootStatus{}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": report.UID, "resourceVersion": report.ResourceVersion}, "status": map[string]any{"machines": machines},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the status of BootReport %s: %w", report.Name, err)
	}
	return client.RawPatch(types.MergePatchType, body), nil
}

// sentence says in one line what fails, for an event. It has no log text.
func sentence(s api.MachineBootStatus) string {
	c := s.Cause
	text := fmt.Sprintf("machine %s does not boot with profile %s %s: stage %s fails", s.Machine, s.Profile, s.Version, s.Stage)
	for _, part := range [][2]string{{": ", c.String()}, {", command ", c.Command}, {", commit ", c.Commit}, {" by ", c.Author}} {
		if part[1] != "" {
			text += part[0] + part[1]
		}
	}
	return redact.Shorten(redact.PrintableLine(text), redact.MaxEvent)
}

// auditEvent is the entry of the audit log about a failure, without its configuration.
func (seen *observed) auditEvent(s api.MachineBootStatus) auditlog.Event {
	c := s.Cause
	return auditlog.Event{
		Kind:   auditlog.BootFailing,
		Object: auditlog.Object{Kind: "Machine", Namespace: seen.md.Namespace, Name: s.Machine, UID: string(s.MachineUID)},
		Key:    strings.Join([]string{s.BootID, string(s.Stage), s.Config, c.NodeFile, fmt.Sprint(c.NodeLine), c.Command, c.File, fmt.Sprint(c.Line)}, "/"),
		Since:  s.Since.UTC().Format(time.RFC3339), Reason: string(s.Stage), Message: sentence(s),
		Pool: &auditlog.Object{Kind: "MachineDeployment", Namespace: seen.md.Namespace, Name: seen.md.Name, UID: seen.report.Annotations[api.AnnotationPoolUID]},
	}
}

// sameCause reports whether two failures are at the same place of the same commit.
func sameCause(a, b api.MachineBootStatus) bool {
	return a.Stage == b.Stage && a.Profile == b.Profile && a.Version == b.Version && a.Cause != nil && b.Cause != nil && *a.Cause == *b.Cause
}
