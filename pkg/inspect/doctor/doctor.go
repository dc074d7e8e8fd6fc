package doctor

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Level is how bad a finding is.
type Level string

// The levels. Each completes "that is ...".
const (
	// OK: as it should be.
	OK Level = "ok"
	// Note: somebody chose so, and may have forgotten it.
	Note Level = "note"
	// Warning: it works, and something beside it does not.
	Warning Level = "warning"
	// Unknown: it could not be looked at.
	Unknown Level = "unknown"
	// Problem: something does not work, or will not.
	Problem Level = "problem"
)

// Finding is what a check found.
type Finding struct {
	// Check is a word for what was looked at, such as "kinds".
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Cluster is "worker" where there are two and it is about that one.
	Cluster string `json:"cluster,omitempty"`
	// Found says what is there.
	Found string `json:"found"`
	// Do says what to do; empty where there is nothing to be done.
	Do string `json:"do,omitempty"`
}

// Report is all that was found, in the order of the checks.
type Report struct {
	Findings []Finding `json:"findings"`
	// Problems and Unknown are how many of them there are.
	Problems int `json:"problems"`
	Unknown  int `json:"unknown"`
}

// Fetcher reads a repository; source.Mirrors does.
type Fetcher interface {
	Fetch(ctx context.Context, r source.Remote) (*source.Snapshot, error)
}

// Doctor looks at an installation. Its fields are set once.
type Doctor struct {
	// Management has profiles, their sources and configurations; Worker pools, their
	// Secrets and nodes. They are the same pointer where there is one cluster.
	Management, Worker *Cluster
	// Namespace is the controller's.
	Namespace string
	// User is who the controller is in the management cluster, and WorkerUser in the
	// worker cluster: "system:serviceaccount:kube-system:osm-gitops".
	User, WorkerUser string
	// LeaseName and WorkerLeaseName are those of the leases that the controller holds,
	// the second in kube-system of the worker cluster.
	LeaseName, WorkerLeaseName string
	// Git reads repositories from here; nil asks none.
	Git Fetcher
	// Clock tells the time of this machine.
	Clock func() time.Time
}

// apart tells whether there are two clusters.
func (d *Doctor) apart() bool { return d.Management != d.Worker }

// clusters are the one, or both.
func (d *Doctor) clusters() []*Cluster {
	if d.apart() {
		return []*Cluster{d.Management, d.Worker}
	}
	return []*Cluster{d.Management}
}

// Examine makes every check. One that fails is a finding: the others are made
// nevertheless. A cluster that does not answer is told once, and then nothing else is
// looked at.
func (d *Doctor) Examine(ctx context.Context) Report {
	w := &run{Doctor: d}
	if w.answers(ctx) {
		w.clocks()
		webhooks, policies := webhookChecks{w}, policyChecks{w}
		for _, check := range []func(context.Context){
			w.kinds, w.rights, policies.controllerPolicies, w.namespace, w.leases, w.clusterInfo, w.sources, w.repositories,
			webhooks.webhooks, policies.policies, w.pools, w.references, w.settings, w.tokens,
		} {
			check(ctx)
		}
	}
	for _, f := range w.Findings {
		switch f.Level {
		case Problem:
			w.Problems++
		case Unknown:
			w.Unknown++
		case OK, Note, Warning: // nothing has to be done at once
		}
	}
	return w.Report
}

// run is one examination.
type run struct {
	*Doctor
	Report

	inventory *inventory // of pools, once it was read
}

// now is the time of the API server with the pools, by which tokens end.
func (w *run) now() time.Time { return w.Worker.seen.date }

// tell adds a finding. What it says may come from a stranger's commit.
func (w *run) tell(f Finding) {
	f.Found = redact.Shorten(redact.Printable(f.Found), redact.MaxCondition)
	w.Findings = append(w.Findings, f)
}

// in names a cluster in a finding, where there are two.
func (w *run) in(c *Cluster) string {
	if !w.apart() {
		return ""
	}
	return c.Name
}

// unread tells that something could not be looked at.
func (w *run) unread(check string, c *Cluster, what string, err error) {
	f := Finding{Check: check, Level: Unknown, Cluster: w.in(c), Found: fmt.Sprintf("%s cannot be read: %v", what, err)}
	switch {
	case apierrors.IsForbidden(err):
		f.Found = "you may not read " + what
		f.Do = "run osm-gitops doctor as somebody who may, such as a cluster admin"
	case apimeta.IsNoMatchError(err):
		f.Found = what + " cannot be read: the cluster does not have this kind"
		f.Do = "see what is said of kinds"
	}
	w.tell(f)
}

// maxTold bounds how many findings of one sort are told one by one.
const maxTold = 20

// rest tells of findings that were too many.
func (w *run) rest(check string, level Level, count int, what string) {
	if count > maxTold {
		w.tell(Finding{Check: check, Level: level, Found: fmt.Sprintf("%d more %s", count-maxTold, what), Do: "mend those above first"})
	}
}

// some is a list of names for people, with a limit.
func some(names []string) string {
	const limit = 5
	out := ""
	for i, n := range names {
		switch {
		case i == limit:
			return fmt.Sprintf("%s and %d more", out, len(names)-limit)
		case i > 0:
			out += ", "
		}
		out += n
	}
	return out
}

// plural is a number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
