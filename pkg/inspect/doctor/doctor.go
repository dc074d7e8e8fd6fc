package doctor

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Level is the severity of a finding.
type Level string

// Levels. Each completes the sentence "that is ...".
const (
	// OK: as expected.
	OK Level = "ok"
	// Note: a choice of the user that may have been forgotten.
	Note Level = "note"
	// Warning: it works, but something related does not.
	Warning Level = "warning"
	// Unknown: it could not be checked.
	Unknown Level = "unknown"
	// Problem: something does not work, or soon will not.
	Problem Level = "problem"
)

// Finding is the result of a check.
type Finding struct {
	// Check names the check, such as "kinds".
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Cluster is "worker" if there are two clusters and the finding is about that one.
	Cluster string `json:"cluster,omitempty"`
	// Found describes the state.
	Found string `json:"found"`
	// Remedy says what to do; empty if nothing is necessary.
	Remedy string `json:"remedy,omitempty"`
}

// Report has all findings in the order of the checks.
type Report struct {
	Findings []Finding `json:"findings"`
	// Problems and Unknown count the findings of these levels.
	Problems int `json:"problems"`
	Unknown  int `json:"unknown"`
}

// Doctor examines an installation. Set its fields once.
type Doctor struct {
	// Management has profiles, their sources and configurations; Worker has pools, their
	// Secrets and nodes. With one cluster they are the same pointer.
	Management, Worker *Cluster
	// Namespace is the controller's namespace.
	Namespace string
	// User is the controller's user in the management cluster, and WorkerUser in the worker
	// cluster: "system:serviceaccount:kube-system:osm-gitops".
	User, WorkerUser string
	// LeaseName and WorkerLeaseName name the controller's leases, the second in kube-system of
	// the worker cluster.
	LeaseName, WorkerLeaseName string
	// Git reads repositories from this machine; nil disables that check.
	Git *source.Mirrors
	// Clock is this machine's clock.
	Clock func() time.Time
}

// hasWorkerCluster reports whether there are two clusters.
func (d *Doctor) hasWorkerCluster() bool { return d.Management != d.Worker }

// clusters returns the one cluster, or both.
func (d *Doctor) clusters() []*Cluster {
	if d.hasWorkerCluster() {
		return []*Cluster{d.Management, d.Worker}
	}
	return []*Cluster{d.Management}
}

// Examine executes all checks. A failed check is a finding and does not stop the others. If
// a cluster does not answer, that is the only finding.
func (d *Doctor) Examine(ctx context.Context) Report {
	w := &examination{Doctor: d}
	kinds := kindChecks{w}
	permissions := permissionChecks{w}
	webhooks := webhookChecks{w}
	policies := policyChecks{w}
	return w.runChecks(ctx,
		kinds.examineAllKinds, permissions.examinePermissions, policies.examineControllerPolicies, w.examineNamespaceConflict, w.examineLeases, w.examineOSMDeployments, w.examineClusterInfo, w.examineSources, w.examineRepositories,
		webhooks.examineWebhooks, policies.examinePolicies, w.examinePools, w.examineForeignReferences, w.examinePoolSettings, w.examineTokens)
}

// runChecks executes checks if each cluster answers.
func (w *examination) runChecks(ctx context.Context, checks ...func(context.Context)) Report {
	if w.examineReachability(ctx) {
		w.examineClocks()
		for _, check := range checks {
			check(ctx)
		}
	}
	for _, f := range w.Findings {
		switch f.Level {
		case Problem:
			w.Problems++
		case Unknown:
			w.Unknown++
		case OK, Note, Warning: // no immediate action
		}
	}
	return w.Report
}

// examination is one execution of the checks, with its findings.
type examination struct {
	*Doctor
	Report

	inventory *inventory // of pools, after the first read
}

// apiServerTime is the time of the API server with the pools, by which tokens expire.
func (w *examination) apiServerTime() time.Time { return w.Worker.seen.date }

// addFinding adds a finding. Its text can come from an untrusted commit.
func (w *examination) addFinding(f Finding) {
	f.Found = redact.Shorten(redact.RemoveControlChars(f.Found), redact.MaxCondition)
	w.Findings = append(w.Findings, f)
}

// report adds a finding about a cluster, or about none in particular if c is nil. The remedy is empty if
// nothing is necessary.
func (w *examination) report(level Level, check string, c *Cluster, found, remedy string) {
	w.addFinding(Finding{Check: check, Level: level, Cluster: w.clusterLabel(c), Found: found, Remedy: remedy})
}

// clusterLabel names the cluster of a finding, if there are two.
func (w *examination) clusterLabel(c *Cluster) string {
	if c == nil || !w.hasWorkerCluster() {
		return ""
	}
	return c.Name
}

// addUnreadable reports that something could not be read.
func (w *examination) addUnreadable(check string, c *Cluster, what string, err error) {
	f := Finding{Check: check, Level: Unknown, Cluster: w.clusterLabel(c), Found: fmt.Sprintf("%s cannot be read: %v", what, err)}
	switch {
	case apierrors.IsForbidden(err):
		f.Found = "you have no permission to read " + what
		f.Remedy = "run osm-gitops doctor as a user with this permission, such as a cluster admin"
	case apimeta.IsNoMatchError(err):
		f.Found = what + " cannot be read: the cluster does not have this kind"
		f.Remedy = "see the check kinds"
	}
	w.addFinding(f)
}

// maxListed bounds the findings of one kind that are listed individually.
const maxListed = 20

// addRemaining summarizes problems above the limit.
func (w *examination) addRemaining(check string, count int, what string) {
	if count > maxListed {
		w.report(Problem, check, nil, fmt.Sprintf("%d more %s", count-maxListed, what), "fix those above first")
	}
}

// joinSome joins names up to a limit.
func joinSome(names []string) string { return phrase.First(names, 5) }

// plural formats a count.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
