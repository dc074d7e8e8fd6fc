package nodes

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Generation is a configuration that a pool had for a time, as it is told to others.
type Generation struct {
	InputDigest, Profile, Version string
	Commit, SelectedBy            string
	// From is when the pool got it, Until when it got another or none; zero: it has it.
	From, Until time.Time
	// Record is the ControllerRevision with its record; empty: the pool's
	// OperatingSystemConfig has it.
	Record string
	// Unrecorded: it came in place of one that there is no record of.
	Unrecorded bool
}

// History are the configurations of a pool, oldest first, that do not overlap.
type History struct{ t timeline }

// NewHistory orders what is known of a pool: its OperatingSystemConfig, nil for none,
// and its archived records, of which it reads annotations alone.
func NewHistory(osc client.Object, records []metav1.PartialObjectMetadata) History {
	return History{newTimeline(osc, records)}
}

// Generations lists them.
func (h History) Generations() []Generation {
	var out []Generation
	for _, g := range h.t {
		out = append(out, *g.public())
	}
	return out
}

// Current is the one that the pool has.
func (h History) Current() (Generation, bool) {
	g, ok := h.t.current()
	return *g.public(), ok
}

// Behind compares a node's version of its profile with the one that its pool gives to
// machines now. The versions are those that the pool got after the node's, each once,
// in the order in which they came; the first is what status.missing names.
func (h History) Behind(np *api.NodeProvenance) (api.Behind, []api.MissingVersion) {
	is, _ := behind(np, h.t)
	if is != api.BehindYes {
		return is, nil
	}
	var out []api.MissingVersion
	known := map[string]bool{}
	for _, g := range missed(np, h.t) {
		if version := g.profile + " " + g.version; !known[version] {
			known[version] = true
			out = append(out, g.missing())
		}
	}
	return is, out
}

// Conclusion is what the controller would write down about a node. The configurations
// are nil where the evidence is Unknown.
type Conclusion struct {
	Evidence                 api.Evidence
	Explanation              string
	Configuration, Bootstrap *Generation
	Possible                 []api.PossibleConfiguration
	// Agreed, Reason and Message are those of the condition Agreed.
	Agreed          metav1.ConditionStatus
	Reason, Message string
}

// Conclude draws the conclusion that the controller would draw now, from what a node
// says of itself, from when its machine fetched its documents, and from the revision of
// the machine's MachineSet.
func (h History) Conclude(says api.NodeReport, window api.ProvenanceWindow, revision string) Conclusion {
	c := conclude(facts{report: says, window: window, revision: revision, pool: h.t})
	out := Conclusion{
		Evidence: c.evidence, Explanation: c.explanation, Configuration: c.configuration.public(), Bootstrap: c.bootstrap.public(),
		Agreed: c.agreement.status, Reason: c.agreement.reason, Message: redact.Printable(c.agreement.message),
	}
	for _, g := range c.possible {
		out.Possible = append(out.Possible, g.ref())
	}
	return out
}

// Window is the time in which a machine fetched the documents of its first node.
func Window(machine, joined metav1.Time) api.ProvenanceWindow {
	w := api.ProvenanceWindow{Until: joined}
	if !machine.After(joined.Add(leeway)) {
		w.From = &machine
	}
	return w
}

// ReportOf is what a Node says of itself.
func ReportOf(node client.Object) api.NodeReport { return reportOf(node) }

func (g *generation) public() *Generation {
	if g == nil {
		return nil
	}
	return &Generation{
		InputDigest: g.inputDigest, Profile: g.profile, Version: g.version, Commit: g.commit, SelectedBy: g.selectedBy,
		From: g.from, Until: g.until, Record: g.record, Unrecorded: g.unrecorded,
	}
}
