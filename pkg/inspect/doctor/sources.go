package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
)

const (
	checkSources = "sources"
	checkGit     = "git"
)

// examineSources reports the controller's status of each ProfileSource.
func (w *examination) examineSources(ctx context.Context) {
	list, ok := w.sourceList(ctx, checkSources)
	if !ok {
		return
	}
	for i := range list {
		w.examineSource(&list[i])
	}
	if len(list) == 0 {
		w.report(Warning, checkSources, nil, "no ProfileSource found in namespace "+w.Namespace,
			"apply one, see docs/profilesource.md; a running controller provides the built-in profiles")
	}
}

// sourceList lists the ProfileSources; it reports an error and returns false.
func (w *examination) sourceList(ctx context.Context, check string) ([]api.ProfileSource, bool) {
	var list api.ProfileSourceList
	if err := w.Management.Client.List(ctx, &list, client.InNamespace(w.Namespace)); err != nil {
		w.addUnreadable(check, w.Management, "ProfileSources of namespace "+w.Namespace, err)
		return nil, false
	}
	return list.Items, true
}

func (w *examination) examineSource(ps *api.ProfileSource) {
	name := "ProfileSource " + ps.Name
	ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition)
	late := w.overdueTime(ps)
	f := Finding{Check: checkSources, Level: OK, Cluster: w.clusterLabel(w.Management)}
	switch rolled := apimeta.FindStatusCondition(ps.Status.Conditions, api.RolledOutCondition); {
	case ps.Spec.Suspend:
		f.Level = Note
		f.Found = name + " is suspended: pushes have no effect"
		f.Remedy = "set spec.suspend to false to resume"
	case ready == nil:
		f.Level = Problem
		f.Found = name + ": the controller has not reconciled it"
		f.Remedy = "see the check lease: does a controller run, and in this namespace?"
	case ready.Status != metav1.ConditionTrue:
		f.Level = Problem
		f.Found = fmt.Sprintf("%s is not ready since %s: %s: %s", name, ready.LastTransitionTime.UTC().Format(time.RFC3339), ready.Reason, ready.Message)
		f.Remedy = cmp.Or(remedies[ready.Reason], otherRemedy)
		if late > 0 && !apimeta.IsStatusConditionTrue(ps.Status.Conditions, meta.StalledCondition) {
			f.Found += fmt.Sprintf("; the last reconciliation was recorded %s ago", late.Round(time.Second))
			f.Remedy = "first see the check lease, since no controller reconciles it; then " + f.Remedy
		}
	case ps.Status.ObservedGeneration != ps.Generation:
		f.Level = Problem
		f.Found = name + ": the controller has not reconciled the changed spec"
		f.Remedy = "see the check lease: does a controller run?"
	case late > 0:
		f.Level = Problem
		f.Found = fmt.Sprintf("no controller reconciles %s: the last reconciliation was recorded %s ago, and a controller records one every %s", name, late.Round(time.Second), ps.LastLookWriteInterval())
		f.Remedy = "see the check lease; if a controller has it, check its log for this source and its --watch-label-selector; restart it if the log shows nothing"
	case rolled != nil && rolled.Reason == api.ReasonRolloutHeld:
		f.Level, f.Found = Problem, fmt.Sprintf("%s holds a rollout: %s", name, rolled.Message)
		f.Remedy = fmt.Sprintf("push a fix, or let it continue: kubectl -n %s annotate profilesource %s %s=VERSION", ps.Namespace, ps.Name, api.AnnotationRelease)
	default:
		f.Found = fmt.Sprintf("%s is ready at %s, %s", name, ps.Status.Revision, plural(len(ps.Status.Profiles), "profile", "profiles"))
		if last := ps.Status.LastLook; last != nil {
			f.Found += fmt.Sprintf("; reconciled within the last %s: a reconciliation without changes is recorded only every %s", max(0, w.Management.seen.date.Sub(last.Time)).Round(time.Second), ps.LastLookWriteInterval())
		}
	}
	w.addFinding(f)
}

// overdueTime returns the time since the last recorded reconciliation of a source if it is too
// long, else 0. Controllers of earlier releases record none.
func (w *examination) overdueTime(ps *api.ProfileSource) time.Duration {
	if ps.Status.LastLook == nil {
		return 0
	}
	age := w.Management.seen.date.Sub(ps.Status.LastLook.Time)
	if age < 2*ps.LastLookWriteInterval() {
		return 0
	}
	return age
}

// otherRemedy is the remedy for the reasons of a Ready condition that remedies lacks.
const otherRemedy = "fix what it names; docs/profilesource.md lists every reason"

// remedies are those for the reasons of a Ready condition.
var remedies = map[string]string{
	api.ReasonProfilesInvalid:      "fix the line that it names, and push: valid profiles are served in the meantime",
	api.ReasonUnreachable:          "check from where the controller runs: name, port and NetworkPolicy of the repository's host; applied profiles remain in the meantime",
	api.ReasonAuthenticationFailed: "replace the credentials in the Secret of spec.git.secretRef; each reconciliation reads them",
	api.ReasonHostKeyRefused:       "compare the host's key with known_hosts of the Secret of spec.git.secretRef, and replace it there if the change is intended",
	api.ReasonReferenceNotFound:    "push the reference that spec.git.ref names, or name another",
	api.ReasonVerificationFailed:   "see its condition SourceVerified: push signed commits, or add the signer's key to the Secret of spec.git.verify",
	api.ReasonHistoryRewritten:     "accept the commit that it names with the annotation " + api.AnnotationAcceptRewrite + ", or push the earlier history again",
}

// examineRepositories reads each repository as the controller does, but from this machine.
func (w *examination) examineRepositories(ctx context.Context) {
	if w.Git == nil {
		return // the controller's status is in sources
	}
	list, ok := w.sourceList(ctx, checkGit)
	if !ok {
		return
	}
	reader := &fetcher.Fetcher{Live: w.Management.Client}
	for i := range list {
		ps := &list[i]
		if ps.Spec.Git == nil {
			continue
		}
		f := Finding{Check: checkGit, Level: OK, Cluster: w.clusterLabel(w.Management), Found: fmt.Sprintf("the repository of ProfileSource %s can be read from this machine", ps.Name)}
		remote, err := reader.NewRemote(ctx, ps)
		if err == nil {
			_, err = w.Git.Fetch(ctx, remote)
		}
		if err != nil {
			f.Level = Problem
			f.Found = fmt.Sprintf("the repository of ProfileSource %s cannot be read from this machine: %s", ps.Name, strings.TrimSpace(err.Error()))
			f.Remedy = "if the controller can read it, see sources, only this machine cannot reach it"
		}
		w.addFinding(f)
	}
}
