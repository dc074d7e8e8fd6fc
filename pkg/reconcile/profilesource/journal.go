package profilesource

import (
	"fmt"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

const sourceKind = "ProfileSource"

// journal tells auditors what one look at a source came to, from what its status said
// before and what it is about to say. Whoever is cut off before the status is written
// tells the same again.
func (r *Reconciler) journal(before, ps *api.ProfileSource, out outcome, err error) {
	if r.Journal == nil {
		return
	}
	var facts []auditlog.Fact
	// The state that a look began with tells what comes again, such as a revision that a
	// force-push went back to, from what is told again.
	about := func(kind auditlog.Kind, occasion string) auditlog.Fact {
		return auditlog.Fact{
			Kind: kind, Occasion: occasion + "\n" + before.ResourceVersion,
			Object: auditlog.Object{Kind: sourceKind, Namespace: ps.Namespace, Name: ps.Name, UID: string(ps.UID)},
		}
	}
	refused := func(revision, reason string, why error) {
		text := redact.Text(why.Error(), redact.MaxCondition)
		f := about(auditlog.ProfileRefused, revision+"\n"+text)
		f.Reason, f.Message = reason, text
		f.Profile = &auditlog.Profile{Repository: out.from, Revision: redact.Clean(revision)}
		facts = append(facts, f)
	}
	switch {
	case err != nil && refusal(err) != nil && changed(before, ps):
		refused(out.revision, failure(err), err)
	case err == nil && changed(before, ps):
		for _, why := range out.refused[:min(len(out.refused), maxNamed)] {
			refused(out.revision, api.EventProfileRefused, why)
		}
		if more := len(out.refused) - maxNamed; more > 0 {
			refused(out.revision, api.EventProfileRefused, fmt.Errorf("and %d more of that revision", more))
		}
	}
	if err == nil {
		for _, e := range append(newlyCurrent(before, ps), broughtBack(before, ps)...) {
			f := about(auditlog.ProfileAccepted, e.Object+"\n"+e.Digest+"\n"+out.revision)
			f.Profile = profileFact(out, e)
			facts = append(facts, f)
		}
		for _, e := range newlyRemoved(before, ps) {
			f := about(auditlog.ProfileRemoved, e.Name+"\n"+out.revision)
			f.Profile = profileFact(out, e)
			facts = append(facts, f)
		}
	}
	if len(facts) > 0 {
		r.Journal.Tell(facts...)
	}
}

// broughtBack are the profiles that had left the source and are in it again as they were.
func broughtBack(before, after *api.ProfileSource) []api.ProfileEntry {
	left := map[string]api.ProfileEntry{}
	for _, e := range before.Status.Profiles {
		if e.Removed {
			left[e.Name] = e
		}
	}
	var out []api.ProfileEntry
	for _, e := range after.Status.Profiles {
		if was, ok := left[e.Name]; ok && !e.Removed && was.Version == e.Version && was.Digest == e.Digest {
			out = append(out, e)
		}
	}
	return out
}

// profileFact is what an inventory says of a profile, at the revision of a look.
func profileFact(out outcome, e api.ProfileEntry) *auditlog.Profile {
	return &auditlog.Profile{
		Name: e.Name, Version: e.Version, Object: e.Object, Digest: e.Digest, Repository: out.from, Revision: redact.Clean(out.revision),
		Path: e.Path, Commit: e.Commit, SelectedBy: e.SelectedBy, Signature: redact.Clean(e.Signature),
	}
}
