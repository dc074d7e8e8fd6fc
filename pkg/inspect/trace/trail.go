package trace

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Result is what is known of one object: the chain of objects between it and a commit,
// and what the chain leads to. All its texts are fit for a terminal.
type Result struct {
	// Subject is the object that was asked about.
	Subject Object `json:"subject"`
	// Steps lead from that object to the source of its profile, in this order: Node,
	// Machine, MachineSet, MachineDeployment, OperatingSystemConfig, ControllerRevision,
	// Secrets, OperatingSystemProfile, ProfileSource. What lies before the object, and
	// what does not apply, is left out.
	Steps []Step `json:"steps"`
	// Node is set for a node, or for a machine with one.
	Node *Node `json:"node,omitempty"`
	// Boots are what a machine without a node reports about its boot, in order.
	Boots []Boot `json:"boots,omitempty"`
	// Pool is the MachineDeployment, "namespace/name".
	Pool string `json:"pool,omitempty"`
	// Profile, Version and InputDigest are those of the configuration that the node was
	// provisioned from; for a pool, of its current one. Empty if unknown.
	Profile     string `json:"profile,omitempty"`
	Version     string `json:"version,omitempty"`
	InputDigest string `json:"inputDigest,omitempty"`
	// Object is the OperatingSystemProfile, and ProfileDigest the digest of its spec.
	Object        string `json:"object,omitempty"`
	ProfileDigest string `json:"profileDigest,omitempty"`
	// Engine is the version of the rendering.
	Engine string `json:"engine,omitempty"`
	// Commit is the origin of the profile; nil if it is not from a repository or unknown.
	Commit *Commit `json:"commit,omitempty"`
	// Behind says how far a node, or a configuration, is behind what its pool has now.
	Behind *Behind `json:"behind,omitempty"`
	// Disagreements are things that contradict each other: what a node says and what the
	// records say, or an object that was edited.
	Disagreements []string `json:"disagreements,omitempty"`
	// Versions are those of a profile that was asked about by its own name, the highest
	// first.
	Versions []ProfileVersion `json:"versions,omitempty"`
	// Pools are those that have a profile's version, or a commit.
	Pools []PoolUse `json:"pools,omitempty"`
	// Nodes are the nodes of a pool, of a profile's version or of a commit.
	Nodes *ProvisionedNodes `json:"nodes,omitempty"`
}

// IsConclusive reports whether the trail leads to a configuration and nothing disagrees.
func (t *Result) IsConclusive() bool {
	return len(t.Disagreements) == 0 && (t.Version != "" || len(t.Versions) > 0 || t.Commit != nil || t.Nodes != nil && t.Nodes.Total > 0)
}

// Step returns the first step of a kind, nil for none.
func (t *Result) Step(kind string) *Step {
	for i := range t.Steps {
		if t.Steps[i].Kind == kind {
			return &t.Steps[i]
		}
	}
	return nil
}

// Object names an object.
type Object struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
}

// String is "Kind namespace/name"; of an object without a name, which was not found,
// the kind.
func (o Object) String() string {
	switch {
	case o.Name == "":
		return o.Kind
	case o.Namespace == "":
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// State of a step, completing "the object is ...".
type State string

// The states there are.
const (
	// Found: it exists and fits into the chain.
	Found State = "Found"
	// Removed: it existed according to an object that remains.
	Removed State = "Removed"
	// Replaced: the object is there, with a later configuration of the pool.
	Replaced State = "Replaced"
	// Missing: it does not exist, and no object shows that it did.
	Missing State = "Missing"
	// Foreign: it exists, and was not made by osm-gitops or belongs to another chain.
	Foreign State = "Foreign"
	// Edited: it exists, and was changed after it was written.
	Edited State = "Edited"
	// Unreadable: the user has no right to read it.
	Unreadable State = "Unreadable"
)

// Step is one object of a chain.
type Step struct {
	Object `json:",inline"`

	State State `json:"state"`
	// Note says what there is to say about the state; empty for none.
	Note string `json:"note,omitempty"`
	// Details about it, in an order for people.
	Details []Detail `json:"facts,omitempty"`
}

// Detail returns the value of a fact, "" for none.
func (s *Step) Detail(name string) string {
	for _, f := range s.Details {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// Detail is something an object says.
type Detail struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Node is the account of a node apart from its chain.
type Node struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// ProviderID is the instance's name at the cloud.
	ProviderID string `json:"providerID,omitempty"`
	// Machine is "namespace/name".
	Machine string `json:"machine,omitempty"`
	// Provenance is the NodeProvenance. Empty: there is none, and the rest was concluded
	// now, as the controller would.
	Provenance string `json:"provenance,omitempty"`
	// Evidence is how its configuration is known, and Explanation says it in a sentence.
	Evidence    api.Evidence `json:"evidence,omitempty"`
	Explanation string       `json:"explanation,omitempty"`
	// Agreed is whether what the node says of itself agrees with the records.
	Agreed *Agreement `json:"agreed,omitempty"`
	// Reported is what the node says of itself, or said last.
	Reported *api.NodeReport `json:"reported,omitempty"`
	// Match is whether it still has what its configuration put on it; nil if it has not reported
	// that.
	Match *Match `json:"match,omitempty"`
	// Joined is when the Node was created, Removed when it was noticed to be gone.
	Joined  metav1.Time  `json:"joined"`
	Removed *metav1.Time `json:"removed,omitempty"`
	// Window is the time in which its machine fetched its documents. Possible are the
	// configurations that the pool had then, if there were several.
	Window   *api.ProvenanceWindow       `json:"window,omitempty"`
	Possible []api.PossibleConfiguration `json:"possible,omitempty"`
	// Bootstrap is the configuration of the bootstrap document, if it is a different one.
	Bootstrap *api.PossibleConfiguration `json:"bootstrap,omitempty"`
	// Others are NodeProvenances of other nodes that had its name.
	Others []string `json:"others,omitempty"`
}

// Agreement is a condition of a NodeProvenance.
type Agreement struct {
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message,omitempty"`
}

// Match is the comparison of a node's files and units with its configuration, as the node reports
// it, and the condition Matches of its NodeProvenance.
type Match struct {
	api.NodeMatch `json:",inline"`

	Condition Agreement `json:"condition"`
}

// Commit is the origin of a profile.
type Commit struct {
	Repository string `json:"repository"`
	// Path of the file in the repository.
	Path string `json:"path,omitempty"`
	// Commit is the first on the followed line that holds the content; of an artifact
	// without history it is the artifact's revision.
	Commit string `json:"commit"`
	// Change is the commit its author wrote.
	Change string `json:"change,omitempty"`
	// SelectedBy is the commit that had made the version current.
	SelectedBy string `json:"selectedBy,omitempty"`
	// Author of Change, CommittedAt the time of Commit.
	Author      string `json:"author,omitempty"`
	CommittedAt string `json:"committedAt,omitempty"`
	// Subject of the message of Change, if its profile's object is still there.
	Subject string `json:"subject,omitempty"`
	// Signature says who signed it; empty where signatures are not verified.
	Signature string `json:"signature,omitempty"`
	// Link is the address of Commit in the web interface of the Git host, ChangeLink of Change, and
	// FileLink of the file at Commit; empty if the host is unknown.
	Link       string `json:"link,omitempty"`
	ChangeLink string `json:"changeLink,omitempty"`
	FileLink   string `json:"fileLink,omitempty"`
	// LinkGuessed says that the kind of host was guessed from its name.
	LinkGuessed bool `json:"linkGuessed,omitempty"`
}

// Behind says how far a configuration is behind what its pool has now.
type Behind struct {
	State api.Behind `json:"state"`
	// Versions that the pool got since, each once, in the order in which they came.
	Versions []api.MissingVersion `json:"versions,omitempty"`
	// Current is the pool's current version, and InputDigest the digest of its configuration; empty
	// if it has none.
	Current     string `json:"current,omitempty"`
	InputDigest string `json:"inputDigest,omitempty"`
}

// PoolUse is a pool that has a version.
type PoolUse struct {
	// Pool is "namespace/name".
	Pool        string `json:"pool"`
	Profile     string `json:"profile,omitempty"`
	Version     string `json:"version,omitempty"`
	Commit      string `json:"commit,omitempty"`
	InputDigest string `json:"inputDigest,omitempty"`
	// From is when the pool got it, Until when it got another; without Until it has it.
	From  metav1.Time  `json:"from"`
	Until *metav1.Time `json:"until,omitempty"`
}

// ProvisionedNodes is a page of nodes, in the order of the names of their NodeProvenances.
type ProvisionedNodes struct {
	// Total is the number of all nodes, Present the number of existing ones, Behind the number of
	// existing ones that are behind their pool.
	Total   int `json:"total"`
	Present int `json:"present"`
	Behind  int `json:"behind"`
	// Versions counts the existing nodes by the version that they were provisioned from, the most
	// frequent first.
	Versions []VersionCount `json:"versions,omitempty"`
	// Nodes of this page.
	Nodes []ProvisionedNode `json:"nodes,omitempty"`
	// Next is what to give as Page.After for the next page; empty on the last one.
	Next string `json:"next,omitempty"`
	// ReadError is the reason why NodeProvenances cannot be read, or empty.
	ReadError string `json:"readError,omitempty"`
}

// VersionCount is how many nodes have a version.
type VersionCount struct {
	Profile string `json:"profile,omitempty"`
	Version string `json:"version,omitempty"`
	Commit  string `json:"commit,omitempty"`
	Nodes   int    `json:"nodes"`
}

// ProvisionedNode is a node in a list.
type ProvisionedNode struct {
	Name string `json:"name"`
	// Provenance is its NodeProvenance.
	Provenance string       `json:"provenance"`
	Pool       string       `json:"pool"`
	Profile    string       `json:"profile,omitempty"`
	Version    string       `json:"version,omitempty"`
	Commit     string       `json:"commit,omitempty"`
	Evidence   api.Evidence `json:"evidence"`
	Behind     api.Behind   `json:"behind,omitempty"`
	Joined     metav1.Time  `json:"joined"`
	Removed    *metav1.Time `json:"removed,omitempty"`
}

// maxText bounds a text from a cluster or a repository. Names and paths that the API
// takes are shorter (security.md 28).
const maxText = 4 << 10 // 4 KiB

// clean makes a text of a stranger one harmless line.
func clean(s string) string {
	return redact.Shorten(redact.RemoveControlChars(strings.NewReplacer("\n", " ", "\r", " ").Replace(s)), maxText)
}

// disagree adds a contradiction.
func (t *Result) disagree(format string, args ...any) {
	t.Disagreements = append(t.Disagreements, clean(fmt.Sprintf(format, args...)))
}

// addStep adds a step, and returns it to be completed.
func (t *Result) addStep(obj Object, state State, note string) *Step {
	obj.Name, obj.Namespace = clean(obj.Name), clean(obj.Namespace)
	t.Steps = append(t.Steps, Step{Object: obj, State: state, Note: clean(note)})
	return &t.Steps[len(t.Steps)-1]
}

// addDetail adds a fact, unless it is empty.
func (s *Step) addDetail(name, value string) {
	if value != "" {
		s.Details = append(s.Details, Detail{Name: name, Value: clean(value)})
	}
}
