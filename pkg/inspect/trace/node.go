package trace

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Node follows the node with a name: the existing one, otherwise the one that was removed last. It
// returns a *NotFoundError if no object mentions the node.
func (c Clusters) Node(ctx context.Context, name string) (*Result, error) {
	return c.traceNodeNamed(ctx, Object{Kind: nodeKind.Kind, Name: name}, name)
}

// Provenance follows the node of a NodeProvenance, which of several nodes of one name is
// exactly one.
func (c Clusters) Provenance(ctx context.Context, name string) (*Result, error) {
	var np api.NodeProvenance
	subject := Object{Kind: "NodeProvenance", Name: name}
	err := getExisting(ctx, c.Worker, subject, &np)
	if err != nil {
		return nil, err
	}
	subject.UID = np.UID
	w := &resultBuilder{in: c, Result: Result{Subject: subject}, np: &np}
	if w.node, err = c.liveNode(ctx, w, np.Spec.Node.Name); err != nil {
		return nil, err
	}
	if w.node != nil && w.node.UID != np.Spec.Node.UID {
		w.node, w.nodeNote = nil, "another node has its name now"
	}
	return w.traceFromNode(ctx)
}

// resultBuilder collects the steps and answers of one trace.
type resultBuilder struct {
	in Clusters
	Result

	node           *metav1.PartialObjectMetadata // nil for a removed node
	nodeNote       string
	np             *api.NodeProvenance // nil for none
	provenanceNote string
	compare        *api.NodeProvenance // what to look for in the past of the pool; nil for nothing
	recorded       *recordedState
}

// traceNodeNamed traces the node with a name, as the answer about the requested object.
func (c Clusters) traceNodeNamed(ctx context.Context, subject Object, name string) (*Result, error) {
	w := &resultBuilder{in: c, Result: Result{Subject: subject}}
	var err error
	if w.node, err = c.liveNode(ctx, w, name); err != nil {
		return nil, err
	}
	provenances, err := w.provenancesOf(ctx, name)
	if err != nil {
		return nil, err
	}
	var others []string
	for i := range provenances {
		np := &provenances[i]
		switch {
		case w.node != nil && np.Spec.Node.UID == w.node.UID, w.node == nil && w.np == nil: // the newest is first
			w.np = np
		default:
			others = append(others, np.Name)
		}
	}
	if w.node == nil && w.np == nil {
		if w.provenanceNote != "" || w.nodeNote != "" {
			return nil, &NotFoundError{Object: subject, Hint: strings.TrimSpace("NodeProvenances: " + cmp.Or(w.provenanceNote, "none") + "; Node: " + cmp.Or(w.nodeNote, "none"))}
		}
		return nil, &NotFoundError{Object: subject, Hint: "records are deleted after --provenance-retention, 90 days by default"}
	}
	t, err := w.traceFromNode(ctx)
	if err == nil {
		t.Node.Others = others
	}
	return t, err
}

// liveNode reads a Node; nil for none.
func (c Clusters) liveNode(ctx context.Context, w *resultBuilder, name string) (*metav1.PartialObjectMetadata, error) {
	node := kubeclient.Metadata(nodeKind)
	state, note, err := getWithState(ctx, c.Worker, types.NamespacedName{Name: name}, node)
	if err != nil || state != Found {
		w.nodeNote = note
		return nil, err
	}
	return node, nil
}

// provenancesOf returns the NodeProvenances of all nodes that have or had a name, the newest node first,
// and sets provenanceNote if some could not be read.
func (w *resultBuilder) provenancesOf(ctx context.Context, name string) ([]api.NodeProvenance, error) {
	var out []api.NodeProvenance
	var err error
	_, w.provenanceNote, err = w.in.forEachProvenance(ctx, func(np *api.NodeProvenance) error {
		if np.Spec.Node.Name == name { // a label is shorter than a name, so two names can share one
			out = append(out, *np)
		}
		return nil
	}, client.MatchingLabels{api.LabelNode: api.NodeLabel(name)})
	slices.SortFunc(out, func(a, b api.NodeProvenance) int {
		return cmp.Or(b.Spec.Node.Joined.Compare(a.Spec.Node.Joined.Time), strings.Compare(a.Name, b.Name))
	})
	return out, err
}

// forEachProvenance visits NodeProvenances in the order of their names.
func (c Clusters) forEachProvenance(ctx context.Context, visit func(*api.NodeProvenance) error, opts ...client.ListOption) (State, string, error) {
	return List(ctx, c.Worker, &api.NodeProvenanceList{}, func(page *api.NodeProvenanceList) error {
		for i := range page.Items {
			if err := visit(&page.Items[i]); err != nil {
				return err
			}
		}
		return nil
	}, opts...)
}

// traceFromNode traces a node that exists or has a NodeProvenance to its pool and to the
// configuration that provisioned it: the one in the NodeProvenance, or without one that which the
// controller would record now.
func (w *resultBuilder) traceFromNode(ctx context.Context) (*Result, error) {
	w.addNodeStep()
	chain, err := w.addOwnerChain(ctx)
	if err != nil {
		return nil, err
	}
	if chain.Pool.Name == "" {
		w.Node.Explanation = "its pool is unknown, and so is the configuration that provisioned it"
		w.Node.Evidence = api.EvidenceUnknown
		return &w.Result, nil
	}
	w.Pool = chain.Pool.String()
	if w.recorded, err = w.in.recordedStateOf(ctx, chain.Pool.NamespacedName); err != nil {
		return nil, err
	}
	made := w.provenanceConfiguration()
	w.compareNodeReport()
	if w.compare = w.np; w.np == nil {
		made = w.concludeAndRecordEvidence(chain)
	}
	w.setBehind()
	if made == nil {
		w.addConfigStep("")
		return &w.Result, nil
	}
	return w.traceFromConfiguration(ctx, *made)
}

// addNodeStep adds the Node, with its report and the NodeProvenance.
func (w *resultBuilder) addNodeStep() {
	obj := Object{Kind: nodeKind.Kind}
	state := Found
	note := ""
	w.Node = &Node{}
	if w.np != nil {
		s := &w.np.Spec
		obj.Name, obj.UID = s.Node.Name, s.Node.UID
		*w.Node = Node{
			ProviderID: clean(s.Node.ProviderID), Machine: clean(s.Machine.Namespace + "/" + s.Machine.Name), Provenance: w.np.Name, Evidence: s.Evidence, Explanation: clean(s.Explanation),
			Joined: s.Node.Joined, Removed: w.np.Status.Removed, Window: &s.Window, Possible: cleanPossible(s.Possible), Reported: cleanReport(s.Reported),
		}
		if b := s.Bootstrap; b != nil && s.Configuration != nil && b.InputDigest != s.Configuration.InputDigest {
			w.Node.Bootstrap = &cleanPossible([]api.PossibleConfiguration{*b})[0]
		}
		if w.np.Status.Reported != nil {
			w.Node.Reported = cleanReport(w.np.Status.Reported)
		}
	}
	switch {
	case w.node != nil:
		// The Node is newer than the record about it.
		obj.Name, obj.UID = w.node.Name, w.node.UID
		w.Node.Joined, w.Node.Removed = w.node.CreationTimestamp, nil
		if r := lineage.ReportOf(w.node); r != (api.NodeReport{}) {
			w.Node.Reported = cleanReport(&r)
		}
		if w.np == nil {
			note = "it has no NodeProvenance: the controller has not seen it, or it has no machine"
			if w.provenanceNote != "" {
				note = "NodeProvenances: " + w.provenanceNote
			}
		}
	case w.np.Status.Removed != nil:
		state, note = Removed, "the controller recorded its deletion at "+formatTime(w.np.Status.Removed.Time)
	default:
		state, note = Removed, cmp.Or(w.nodeNote, "it was deleted, and the controller has not recorded that yet")
	}
	w.Node.Name, w.Node.UID = clean(obj.Name), obj.UID
	step := w.addStep(obj, state, note)
	step.addDetail("joined", formatTime(w.Node.Joined.Time))
	step.addDetail("provider id", w.Node.ProviderID)
	if r := w.Node.Reported; r != nil {
		step.addDetail("reported configuration", r.Config)
		step.addDetail("reported commit", r.Commit)
	}
	w.copyAgreedCondition()
	w.copyReportedFileMatch()
}

// copyAgreedCondition copies the controller's comparison of the node report with the records.
func (w *resultBuilder) copyAgreedCondition() {
	if w.np == nil {
		return
	}
	c := apimeta.FindStatusCondition(w.np.Status.Conditions, api.AgreedCondition)
	if c == nil {
		return
	}
	w.setAgreed(c.Status, c.Reason, c.Message)
}

// copyReportedFileMatch copies what the controller concluded from the node's report about its files.
func (w *resultBuilder) copyReportedFileMatch() {
	if w.np == nil || w.np.Status.Match == nil {
		return
	}
	m := &Match{NodeMatch: *w.np.Status.Match.DeepCopy()}
	for i := range m.Differences { // a snapshot is not validated
		d := &m.Differences[i]
		d.Path, d.Reason = clean(d.Path), api.DifferenceReason(clean(string(d.Reason)))
		d.Found = clean(d.Found)
		d.Version = clean(d.Version)
		d.Commit = clean(d.Commit)
	}
	m.State, m.Config = api.MatchState(clean(string(m.State))), clean(m.Config)
	if c := apimeta.FindStatusCondition(w.np.Status.Conditions, api.MatchesCondition); c != nil {
		m.Condition = Agreement{Status: c.Status, Reason: clean(c.Reason), Message: clean(c.Message)}
	}
	w.Node.Match = m
}

// compareNodeReport compares a node's current report with the records if the controller's
// conclusion is about an earlier report.
func (w *resultBuilder) compareNodeReport() {
	if w.np == nil || w.node == nil {
		return
	}
	report, evaluated := lineage.ReportOf(w.node), cmp.Or(w.np.Status.Reported, &api.NodeReport{})
	if report == *evaluated || w.Node.Agreed == nil || w.Node.Agreed.Status == metav1.ConditionFalse {
		return
	}
	c := lineage.DetermineConfiguration(lineage.Observation{Report: report, Window: w.np.Spec.Window, Revision: w.np.Spec.Pool.Revision, Pool: w.recorded.Timeline})
	w.setAgreed(c.Agreement.Status, c.Agreement.Reason, redact.RemoveControlChars(c.Agreement.Message))
}

func (w *resultBuilder) setAgreed(status metav1.ConditionStatus, reason, message string) {
	w.Node.Agreed = &Agreement{Status: status, Reason: clean(reason), Message: clean(message)}
	if status == metav1.ConditionFalse {
		w.disagree("the node's report: %s", message)
	}
}

// addOwnerChain adds the steps from the machine to the MachineDeployment.
func (w *resultBuilder) addOwnerChain(ctx context.Context) (lineage.Chain, error) {
	if w.np != nil {
		c := lineage.RecordedOwners(w.np)
		if err := w.addMachineStep(ctx, objectOf("Machine", c.Machine)); err != nil {
			return c, err
		}
		if _, err := w.addMachineSetStep(ctx, objectOf(machineSetKind.Kind, c.MachineSet), kubeclient.Metadata(machineSetKind)); err != nil {
			return c, err
		}
		_, err := w.addPoolStep(ctx, objectOf("MachineDeployment", c.Pool))
		return c, err
	}
	m, err := w.findAndAddMachineStep(ctx)
	if err != nil || m == nil {
		return lineage.Chain{}, err
	}
	w.Node.Machine = m.Namespace + "/" + m.Name
	c, err := w.addStepsBelowPool(ctx, m)
	if err == nil && c.Pool.Name != "" {
		_, err = w.addPoolStep(ctx, objectOf("MachineDeployment", c.Pool))
	}
	return c, err
}

// addStepsBelowPool adds the owners of a machine, and what is missing before the pool.
func (w *resultBuilder) addStepsBelowPool(ctx context.Context, m *cluster.Machine) (lineage.Chain, error) {
	c, err := lineage.FollowOwners(ctx, w, m)
	switch set := w.Step(machineSetKind.Kind); {
	case err != nil || c.Pool.Name != "":
	case set == nil:
		w.addStep(Object{Kind: machineSetKind.Kind, Namespace: m.Namespace}, Missing, "no MachineSet owns the Machine")
	case set.State == Found:
		w.addStep(Object{Kind: "MachineDeployment", Namespace: m.Namespace}, Missing, "no MachineDeployment owns the MachineSet")
	}
	return c, err
}

// Find adds the MachineSet that a chain passes. With it, resultBuilder implements lineage.Reader.
func (w *resultBuilder) Find(ctx context.Context, ref lineage.Reference, obj lineage.Object) (bool, error) {
	return w.addMachineSetStep(ctx, objectOf(machineSetKind.Kind, ref), obj)
}

func objectOf(kind string, ref lineage.Reference) Object {
	return Object{Kind: kind, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
}

// addMachineStep adds the machine that something names.
func (w *resultBuilder) addMachineStep(ctx context.Context, obj Object) error {
	var m cluster.Machine
	state, note, err := getWithState(ctx, w.in.Worker, types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}, &m)
	if err != nil {
		return err
	}
	switch {
	case state == Missing && obj.UID != "":
		state = Removed
	case state == Found && obj.UID != "" && m.UID != obj.UID:
		state, note = Removed, "another Machine has its name now"
	}
	w.addStep(obj, state, note).addDetail("created", formatTime(w.np.Spec.Machine.Created.Time))
	return nil
}

// findAndAddMachineStep finds the machine of a node that nothing is written about, as the controller
// does: a machine that says that it has the node counts more than what the node says.
func (w *resultBuilder) findAndAddMachineStep(ctx context.Context) (*cluster.Machine, error) {
	uid := types.UID(w.node.Labels[api.LabelOwnedBy])
	var found *cluster.Machine
	if key, ok := lineage.ParsePool(w.node.Annotations[api.AnnotationMachine]); ok {
		var m cluster.Machine
		state, _, err := getWithState(ctx, w.in.Worker, key, &m)
		if err != nil {
			return nil, err
		}
		if state == Found && w.refersToNoOtherNode(&m) {
			found = &m
		}
	}
	note := "no Machine names this node, and the node names none: it is not of a pool"
	// The node can write its annotation itself: a machine that names the node decides.
	if found == nil || found.Status.NodeRef == nil || uid != "" && found.UID != uid {
		state, why, err := List(ctx, w.in.Worker, &cluster.MachineList{}, func(page *cluster.MachineList) error {
			for i := range page.Items {
				m := &page.Items[i]
				ref := m.Status.NodeRef
				switch {
				case ref != nil && ref.Name == w.node.Name:
					found = m.DeepCopy()
					return errEnough
				case uid != "" && m.UID == uid && w.refersToNoOtherNode(m):
					found = m.DeepCopy()
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if state != Found {
			note = why
		}
	}
	if found == nil {
		w.addStep(Object{Kind: "Machine", UID: uid}, Missing, note)
		return nil, nil
	}
	step := w.addStep(Object{Kind: "Machine", Namespace: found.Namespace, Name: found.Name, UID: found.UID}, Found, "")
	step.addDetail("created", formatTime(found.CreationTimestamp.Time))
	return found, nil
}

// refersToNoOtherNode reports whether nothing in a Machine says that it has another node.
func (w *resultBuilder) refersToNoOtherNode(m *cluster.Machine) bool {
	return m.Status.NodeRef == nil || m.Status.NodeRef.Name == w.node.Name
}

// concludeAndRecordEvidence returns the configuration that the controller would record for the node
// now, and sets the evidence.
func (w *resultBuilder) concludeAndRecordEvidence(chain lineage.Chain) *tracedConfiguration {
	report := lineage.ReportOf(w.node)
	window := lineage.NewProvenanceWindow(chain.Created, w.node.CreationTimestamp)
	c := lineage.DetermineConfiguration(lineage.Observation{Report: report, Window: window, Revision: chain.Revision, Pool: w.recorded.Timeline})
	w.Node.Evidence = c.Evidence
	w.Node.Explanation = clean(c.Explanation)
	w.Node.Window = &window
	w.Node.Possible = c.Possible.Configurations()
	w.setAgreed(c.Agreement.Status, c.Agreement.Reason, redact.RemoveControlChars(c.Agreement.Message))
	if c.Configuration == nil {
		return nil
	}
	g := c.Configuration
	w.compare = &api.NodeProvenance{Spec: api.NodeProvenanceSpec{ // what would be written
		Window: window, Configuration: &api.ProvenanceConfiguration{InputDigest: g.InputDigest, Profile: g.Profile, Version: g.Version},
	}}
	return &tracedConfiguration{digest: g.InputDigest, profile: g.Profile, version: g.Version, commit: g.Commit, selectedBy: g.SelectedBy}
}

// provenanceConfiguration returns the configuration in the NodeProvenance, or nil if it has none.
func (w *resultBuilder) provenanceConfiguration() *tracedConfiguration {
	if w.np == nil || w.np.Spec.Configuration == nil {
		return nil
	}
	s := w.np.Spec.Configuration
	return &tracedConfiguration{
		digest: s.InputDigest, profile: s.Profile, version: s.Version, commit: s.Commit, selectedBy: s.SelectedBy, written: s,
	}
}

// setBehind sets which versions the node lacks of those that its pool has had since, up to the
// current one.
func (w *resultBuilder) setBehind() {
	current, ok := w.recorded.Current()
	b := &Behind{State: api.BehindUnknown}
	if ok {
		b.Current, b.InputDigest = clean(current.Profile+" "+current.Version), current.InputDigest
	}
	if w.compare != nil {
		b.State, b.Versions = lineage.FindMissingVersions(w.compare, w.recorded.Timeline)
		for i := range b.Versions {
			v := &b.Versions[i]
			v.Profile = clean(v.Profile)
			v.Version = clean(v.Version)
			v.Commit = clean(v.Commit)
		}
	}
	w.Behind = b
}

func cleanReport(r *api.NodeReport) *api.NodeReport {
	if r == nil {
		return nil
	}
	return &api.NodeReport{Config: clean(r.Config), Commit: clean(r.Commit)}
}

func cleanPossible(all []api.PossibleConfiguration) []api.PossibleConfiguration {
	out := slices.Clone(all)
	for i := range out {
		p := &out[i]
		p.InputDigest = clean(p.InputDigest)
		p.Profile = clean(p.Profile)
		p.Version = clean(p.Version)
		p.Commit = clean(p.Commit)
	}
	return out
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
