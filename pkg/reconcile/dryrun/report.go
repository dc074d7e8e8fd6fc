package dryrun

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/dryrun/virtual"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Report is what the controller would do. It has names, never values: no content of a
// Secret, no credential.
type Report struct {
	// Settings are flags, and values in the Secret of a flag, that probably have not the
	// intended effect.
	Settings []render.Warning `json:"settings"`
	// Sources are the ProfileSources, by name.
	Sources []Source `json:"sources"`
	// Pools are by "namespace/name".
	Pools []Pool `json:"pools"`
	// Nodes are the nodes of pools for which something would be written.
	Nodes []Subject `json:"nodes"`
	// Writes is the number of all writes.
	Writes int `json:"writes"`
	// References are the objects, as "namespace/name", that pools refer to and that must
	// be listed in --cloud-provider-references before these pools are served.
	References []string `json:"references"`
}

// Subject is an object that the controller handles.
type Subject struct {
	Name string `json:"name"`
	// Writes are by kind, namespace and name, those of one object in their order.
	Writes []Write         `json:"writes"`
	Events []virtual.Event `json:"events"`
	// Problem is why it could not be checked completely.
	Problem string `json:"problem,omitempty"`
}

// Source is a ProfileSource.
type Source struct {
	Subject `json:",inline"`

	// Ready is whether it would be Ready, with Reason and Message of the condition.
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Profiles are the profiles that it would provide.
	Profiles []string `json:"profiles"`
}

// Pool is a MachineDeployment that has a profile, or had one.
type Pool struct {
	Subject `json:",inline"`

	// Profile that it requests, "" if it is no longer a pool.
	Profile string `json:"profile,omitempty"`
	// Rejected is why it would not get what it requests; Waits reports that this is
	// temporary.
	Rejected string `json:"refused,omitempty"`
	Waits    bool   `json:"waits,omitempty"`
	// Documents are those that its machines boot from: bootstrap, then provisioning.
	Documents []Document `json:"documents"`
	// Replaced: running machines are replaced, because the template changes.
	Replaced bool `json:"replaced"`
	// Machines is the effect on machines.
	Machines string `json:"machines"`
}

// Write is one request, without its content.
type Write struct {
	Verb      string `json:"verb"` // create, update, patch, delete
	Kind      string `json:"kind"`
	Group     string `json:"group,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Part is the subresource, such as status, or token for a TokenRequest.
	Part string `json:"part,omitempty"`
	// Cluster is management or worker, if there are two.
	Cluster string `json:"cluster,omitempty"`
	// What changes: fields, and the keys of labels, annotations and data.
	What []string `json:"what,omitempty"`
}

// HasFailures reports whether something would be rejected, or could not be checked.
func (r *Report) HasFailures() bool {
	return slices.ContainsFunc(r.Sources, func(s Source) bool { return !s.Ready || s.Problem != "" }) ||
		slices.ContainsFunc(r.Pools, func(p Pool) bool { return p.Problem != "" || p.Rejected != "" && !p.Waits }) ||
		slices.ContainsFunc(r.Nodes, func(s Subject) bool { return s.Problem != "" })
}

// eventLog are the objects with writes or events, by subject.
type eventLog struct {
	subjects map[string]*Subject
	replaced map[string]bool // pools whose template changes
}

func (t *eventLog) subjectFor(subject string) *Subject {
	if t.subjects[subject] == nil {
		plain := subject[strings.LastIndex(subject, " ")+1:] // names of objects have no blank
		t.subjects[subject] = &Subject{Name: plain, Writes: []Write{}, Events: []virtual.Event{}}
	}
	return t.subjects[subject]
}

// add records a write or event: those about a MachineDeployment belong to its pool,
// those of a rollout to its ProfileSource.
func (t *eventLog) add(a virtual.Act, w Write) {
	if a.Event != nil {
		if s := t.subjectFor(reportingSubject(a.Subject)); !slices.Contains(s.Events, *a.Event) {
			s.Events = append(s.Events, *a.Event)
		}
		return
	}
	to := reportingSubject(a.Subject)
	if a.At.Kind.Kind == "MachineDeployment" {
		to = subjectOf(poolKind, a.At.Key)
		t.replaced[to] = t.replaced[to] || a.TemplateChanged
	}
	s := t.subjectFor(to)
	s.Writes = append(s.Writes, w)
}

// poolKeys lists the pools with writes or events, including those that were deleted with all
// of their objects.
func (t *eventLog) poolKeys() (out []types.NamespacedName) {
	for subject := range t.subjects {
		if key, ok := strings.CutPrefix(subject, poolKind+" "); ok {
			ns, name, _ := strings.Cut(key, "/")
			out = append(out, types.NamespacedName{Namespace: ns, Name: name})
		}
	}
	return out
}

// buildReport groups the writes by object.
func (r *DryRun) buildReport(ctx context.Context, failed map[string]error) (*Report, error) {
	acts := r.Store.RecordedActs()
	all := &eventLog{subjects: map[string]*Subject{}, replaced: map[string]bool{}}
	out := &Report{Settings: []render.Warning{}, Sources: []Source{}, Pools: []Pool{}, Nodes: []Subject{}, References: []string{}, Writes: r.Store.WriteCount()}
	if r.Settings != nil {
		settings, _ := r.Settings(ctx) // pools report problems of the Secret
		out.Settings = append(out.Settings, settings.Warnings()...)
	}
	for _, a := range acts {
		all.add(a, r.describeWrite(a))
	}
	for _, s := range all.subjects {
		sortWrites(s.Writes)
	}
	for subject, err := range failed {
		if strings.HasSuffix(subject, "/") {
			return nil, fmt.Errorf("dry run of the rollouts of pools without a ProfileSource: %w", err)
		}
		all.subjectFor(reportingSubject(subject)).Problem = redact.CleanMessage(err.Error())
	}
	for _, name := range slices.Sorted(maps.Keys(all.subjects)) {
		if strings.HasPrefix(name, nodeKind+" ") {
			out.Nodes = append(out.Nodes, *all.subjects[name])
		}
	}
	if err := r.addSources(ctx, out, all); err != nil {
		return nil, err
	}
	keys, err := r.listCurrentAndDeletedPools(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Compact(sorted(append(keys, all.poolKeys()...))) {
		name := subjectOf(poolKind, key)
		p := Pool{Subject: *all.subjectFor(name), Replaced: all.replaced[name], Documents: compareDocuments(r.Store, key)}
		if err := r.setPoolState(ctx, &p, key, out); err != nil {
			return nil, err
		}
		p.Machines = p.machineEffect()
		out.Pools = append(out.Pools, p)
	}
	slices.Sort(out.References)
	out.References = slices.Compact(out.References)
	return out, nil
}

// sortWrites sorts writes by object. A pool's objects are written at the same time, in a different
// order each time.
func sortWrites(writes []Write) {
	slices.SortStableFunc(writes, func(a, b Write) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// reportingSubject returns the subject under which another one is reported: some controllers also
// work for ProfileSources.
func reportingSubject(subject string) string {
	for _, kind := range []string{builtinKind, rolloutKind} {
		if name, ok := strings.CutPrefix(subject, kind); ok {
			return sourceKind + name
		}
	}
	return subject
}

// addSources adds the ProfileSources.
func (r *DryRun) addSources(ctx context.Context, out *Report, all *eventLog) error {
	var list api.ProfileSourceList
	if err := r.Management.List(ctx, &list); err != nil {
		return fmt.Errorf("listing ProfileSources: %w", err)
	}
	for i := range list.Items {
		ps := &list.Items[i]
		if ps.Namespace != r.Namespace || !r.Shard.Includes(ps) {
			continue
		}
		s := Source{Subject: *all.subjectFor(subjectOf(sourceKind, types.NamespacedName{Namespace: ps.Namespace, Name: ps.Name}))}
		s.Ready, s.Profiles = ps.Spec.Suspend, []string{}
		for _, e := range ps.Status.Profiles {
			s.Profiles = append(s.Profiles, e.Name)
		}
		if c := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition); c != nil {
			s.Ready = s.Ready || c.Status == metav1.ConditionTrue
			s.Reason = c.Reason
			s.Message = redact.CleanMessage(c.Message)
		}
		out.Sources = append(out.Sources, s)
	}
	slices.SortFunc(out.Sources, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// setPoolState determines whether a pool would have what it requests: a warning says why not, or
// an annotation of its configuration if it was reported before.
func (r *DryRun) setPoolState(ctx context.Context, p *Pool, key types.NamespacedName, out *Report) error {
	for _, s := range p.Events {
		if s.Warning {
			p.Rejected, p.Waits = s.Text, s.Reason == api.EventWaiting
		}
	}
	var md cluster.MachineDeployment
	if err := r.Worker.Get(ctx, key, &md); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading MachineDeployment %s: %w", key, err)
	}
	p.Profile = redact.PrintableLine(md.Annotations[api.AnnotationOSP])
	if p.Profile != "" {
		for _, object := range r.Unallowed(&md) {
			out.References = append(out.References, object.String())
		}
	}
	for i, d := range p.Documents {
		if d.Change != DocumentUntouched {
			continue
		}
		err := r.Worker.Get(ctx, types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: d.Secret}, &corev1.Secret{})
		if apierrors.IsNotFound(err) {
			p.Documents[i].Change, p.Documents[i].Equivalence = DocumentMissing, ""
		} else if err != nil {
			return fmt.Errorf("reading Secret %s: %w", d.Secret, err)
		}
	}
	osc := kubeclient.Metadata(kubeclient.ConfigKind)
	err := r.Management.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: lineage.NamesOf(key).Config}, osc)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading OperatingSystemConfig of pool %s: %w", key, err)
	}
	if osc.Annotations[api.AnnotationPool] == key.String() {
		p.Rejected = cmp.Or(p.Rejected, redact.CleanMessage(osc.Annotations[api.AnnotationRefused]))
	}
	return nil
}

// describeWrite converts a recorded request to a Write of the report.
func (r *DryRun) describeWrite(a virtual.Act) Write {
	w := Write{Verb: a.Verb, Kind: a.At.Kind.Kind, Group: a.At.Kind.Group, Namespace: a.At.Key.Namespace, Name: a.At.Key.Name, Part: a.Part, What: a.What}
	if r.Management != r.Worker {
		w.Cluster = a.At.Cluster
	}
	return w
}
