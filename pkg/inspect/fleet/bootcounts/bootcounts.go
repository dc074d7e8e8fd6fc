package bootcounts

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// joinLimit is the time after which a machine without a Node has failed, as for rollouts.
const joinLimit = 30 * time.Minute

// Version counts the machines of one version: those that have or had a Node, and the existing
// ones without. Failed machines that were deleted are only in the audit log.
type Version struct {
	Profile string `json:"profile"`
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Author  string `json:"author,omitempty"`
	// Joined machines have, or had, a Node.
	Joined int `json:"joined"`
	// Booting machines have no Node yet and report no failure.
	Booting int `json:"booting"`
	// Failing machines have no Node yet, and report that a script fails.
	Failing int `json:"failing"`
	// Failed machines have no Node 30 minutes after their creation.
	Failed int `json:"failed"`
	// P50Seconds and P95Seconds are from the creation of a machine to its Node.
	P50Seconds float64 `json:"p50Seconds"`
	P95Seconds float64 `json:"p95Seconds"`
	// Causes are those of the failing and failed machines.
	Causes []fleet.MachineBoot `json:"causes,omitempty"`

	newest  time.Time // the last creation of a machine
	seconds []float64
}

// ListUnjoined lists the machines without a Node and what they report, by pool and name, with
// pageSize objects per request. The error is that of the first kind that cannot be listed.
func ListUnjoined(ctx context.Context, worker client.Reader, pageSize int64) ([]fleet.MachineBoot, error) {
	pools := map[types.UID]string{}
	for sets, err := range kubeclient.Pages(ctx, worker, &cluster.MachineSetList{}, client.Limit(pageSize)) {
		if err != nil {
			return nil, err
		}
		for i := range sets.Items {
			pools[sets.Items[i].UID] = lineage.PoolOfSet(&sets.Items[i]).String()
		}
	}
	unjoined := map[types.UID]*fleet.MachineBoot{}
	for machines, err := range kubeclient.Pages(ctx, worker, &cluster.MachineList{}, client.Limit(pageSize)) {
		if err != nil {
			return nil, err
		}
		for i := range machines.Items {
			m := &machines.Items[i]
			if pool := pools[lineage.MachineSetOf(m).UID]; pool != "" && m.Status.NodeRef == nil && m.DeletionTimestamp == nil {
				unjoined[m.UID] = &fleet.MachineBoot{Pool: pool, Machine: m.Name, Created: m.CreationTimestamp.Time}
			}
		}
	}
	if len(unjoined) == 0 {
		return nil, nil
	}
	failing := func(_ string, s *api.MachineBootStatus) {
		if m := unjoined[s.MachineUID]; m != nil {
			m.Boot = s
		}
	}
	err := fleet.ForEachFailing(ctx, worker, failing, client.Limit(pageSize))
	var out []fleet.MachineBoot
	for _, m := range unjoined {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b fleet.MachineBoot) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), strings.Compare(a.Machine, b.Machine))
	})
	return out, err
}

// Count counts the machines of each version in the pools that in accepts, those of the newest
// machine first. Machines without a Node are counted for the version that their pool had when they
// were created, unless they report another.
func Count(f *fleet.Model, unjoined []fleet.MachineBoot, in func(pool string) bool) []*Version {
	rows := map[fleet.OriginKey]*Version{}
	row := func(key fleet.OriginKey, created time.Time) *Version {
		b := rows[key]
		if b == nil {
			b = &Version{Profile: key.Profile, Version: key.Version, Commit: key.Commit}
			if o := f.Origins[key]; o != nil {
				b.Author = o.Author
			}
			rows[key] = b
		}
		if created.After(b.newest) {
			b.newest = created
		}
		return b
	}
	for _, n := range f.Nodes {
		if n.Version == "" || !in(n.Pool) {
			continue
		}
		key := fleet.OriginKey{Profile: n.Profile, Version: n.Version, Commit: n.Commit}
		if n.Configuration != nil {
			key.Commit = n.Configuration.Commit
		}
		b := row(key, n.Created.Time)
		b.Joined++
		b.seconds = append(b.seconds, n.Joined.Sub(n.Created.Time).Seconds())
	}
	for _, m := range unjoined {
		key, known := versionOf(f, m)
		if !known || !in(m.Pool) {
			continue
		}
		b := row(key, m.Created)
		switch {
		case f.At.Sub(m.Created) >= joinLimit:
			b.Failed++
		case m.Boot != nil:
			b.Failing++
		default:
			b.Booting++
			continue
		}
		b.Causes = append(b.Causes, m)
	}
	out := []*Version{}
	for _, b := range rows {
		slices.Sort(b.seconds)
		b.P50Seconds, b.P95Seconds = percentile(b.seconds, 50), percentile(b.seconds, 95)
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b *Version) int {
		return cmp.Or(b.newest.Compare(a.newest), strings.Compare(a.Profile, b.Profile), strings.Compare(a.Version, b.Version), strings.Compare(a.Commit, b.Commit))
	})
	return out
}

// versionOf returns the version that a machine without a Node boots.
func versionOf(f *fleet.Model, m fleet.MachineBoot) (fleet.OriginKey, bool) {
	p := f.Pools[m.Pool]
	if p == nil {
		return fleet.OriginKey{}, false
	}
	for _, g := range slices.Backward(p.Timeline) {
		reported := m.Boot != nil && g.Profile == m.Boot.Profile && g.Version == m.Boot.Version
		if reported || m.Boot == nil && !g.From.After(m.Created) {
			return fleet.OriginKey{Profile: g.Profile, Version: g.Version, Commit: g.Commit}, true
		}
	}
	return fleet.OriginKey{}, false
}

// percentile returns the value at a percentile of sorted values by the nearest rank, 0 for none.
func percentile(sorted []float64, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}

// Regression is where machines of a pool stopped joining.
type Regression struct {
	// Joined is the last version whose machines joined, empty if none did.
	Joined string `json:"joined,omitempty"`
	// Failed is the first version after it whose machines did not.
	Failed string `json:"failed"`
	// Commits are those that changed the profile between the two, the last one included, oldest
	// first, as far as their versions exist.
	Commits []RegressionCommit `json:"commits"`
}

// RegressionCommit is a commit between two versions of a profile.
type RegressionCommit struct {
	Commit  string `json:"commit"`
	Version string `json:"version"`
	Subject string `json:"subject,omitempty"`
	Author  string `json:"author,omitempty"`
}

// FindRegression returns where the machines of a pool stopped joining, nil if those of its
// latest version with machines joined. boots are the counts of this pool.
func FindRegression(f *fleet.Model, pool string, boots []*Version) *Regression {
	p := f.Pools[pool]
	if p == nil {
		return nil
	}
	var joined, failed *fleet.OriginKey
	for _, g := range p.Timeline {
		key := fleet.OriginKey{Profile: g.Profile, Version: g.Version, Commit: g.Commit}
		i := slices.IndexFunc(boots, func(b *Version) bool {
			return b.Profile == g.Profile && b.Version == g.Version && b.Commit == g.Commit
		})
		switch {
		case i < 0:
		case boots[i].Joined > 0:
			joined, failed = &key, nil
		case failed == nil && len(boots[i].Causes) > 0:
			failed = &key
		}
	}
	if failed == nil {
		return nil
	}
	out := &Regression{Failed: failed.Version, Commits: []RegressionCommit{}}
	until := f.Origins[*failed]
	var after time.Time
	if joined != nil {
		out.Joined = joined.Version
		if o := f.Origins[*joined]; o != nil {
			after = o.CommitTime()
		}
	}
	if until == nil {
		return out
	}
	var between []*fleet.Origin
	for _, o := range f.Origins {
		at := o.CommitTime()
		inside := o == until || !after.IsZero() && at.After(after) && at.Before(until.CommitTime())
		if inside && o.Profile == until.Profile && o.Source == until.Source && o.Namespace == until.Namespace {
			between = append(between, o)
		}
	}
	slices.SortFunc(between, func(a, b *fleet.Origin) int {
		return cmp.Or(a.CommitTime().Compare(b.CommitTime()), strings.Compare(a.Version, b.Version))
	})
	for _, o := range between {
		out.Commits = append(out.Commits, RegressionCommit{o.Commit, o.Version, o.Subject, o.Author})
	}
	return out
}
