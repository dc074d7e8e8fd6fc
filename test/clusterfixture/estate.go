// Package clusterfixture builds what a cluster holds after a few pushes and machines, with
// times of its own, and writes it as `osm-gitops trace --dump` does. Tests that ask what
// is known of a node read it; the objects are made by the parts that make them in a
// cluster, as far as those need none.
package clusterfixture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/offline"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/lineage/dump"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Namespace is the controller's.
const Namespace = "kube-system"

// Repository of the profiles, and its ProfileSource.
const (
	Repository = "https://git.example.com/platform/osps.git"
	Source     = "osps"
)

// Noon is when an estate begins.
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// At is a time, in minutes after noon.
func At(minute int) time.Time { return Noon.Add(time.Duration(minute) * time.Minute) }

// Fixture is what clusters hold.
type Fixture struct {
	t       testing.TB
	Objects []client.Object
	// ReadErrors are the kinds that who wrote the dump could not read.
	ReadErrors []string
	served     map[string]*osm.OperatingSystemConfig // by pool
}

// New begins one, with the ProfileSource and without profiles.
func New(t testing.TB) *Fixture {
	e := &Fixture{t: t, served: map[string]*osm.OperatingSystemConfig{}}
	ps := &api.ProfileSource{ObjectMeta: e.meta(Namespace, Source, Noon)}
	minute := metav1.Duration{Duration: time.Minute}
	ps.Spec = api.ProfileSourceSpec{Git: &api.GitSource{URL: Repository, Timeout: minute}, Interval: minute, RetryInterval: minute}
	ps.Status.Revision = "main@sha1:" + Commit(1)
	ps.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Succeeded"}}
	e.add(ps)
	return e
}

// Copy returns one that a test can change without changing this.
func (e *Fixture) Copy(t testing.TB) *Fixture {
	c := &Fixture{t: t, ReadErrors: slices.Clone(e.ReadErrors), served: map[string]*osm.OperatingSystemConfig{}}
	for _, obj := range e.Objects {
		c.add(obj.DeepCopyObject().(client.Object))
	}
	for pool, osc := range e.served {
		c.served[pool] = Get[*osm.OperatingSystemConfig](c, osc.Name)
	}
	return c
}

// Commit is the id of the nth commit.
func Commit(n int) string { return fmt.Sprintf("%040x", 0xc0ffee0000+n) }

// Change is the id of the nth commit as its author wrote it, before it was merged.
func Change(n int) string { return fmt.Sprintf("%040x", 0xadd0000000+n) }

func (e *Fixture) meta(namespace, name string, at time.Time) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(at),
		UID: types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", len(e.Objects)+1, len(e.Objects)+1)),
	}
}

func (e *Fixture) add(obj client.Object) { e.Objects = append(e.Objects, obj) }

// Get finds the last object of a type and a name.
func Get[O client.Object](e *Fixture, name string) O {
	e.t.Helper()
	for _, obj := range slices.Backward(e.Objects) {
		if o, ok := obj.(O); ok && obj.GetName() == name {
			return o
		}
	}
	var none O
	e.t.Fatalf("there is no %T %s", none, name)
	return none
}

// Delete removes the last object of a type and a name.
func Delete[O client.Object](e *Fixture, name string) {
	e.t.Helper()
	gone := client.Object(Get[O](e, name))
	e.Objects = slices.DeleteFunc(e.Objects, func(obj client.Object) bool { return obj == gone })
}

// Push makes version n of profile osp-x, v1.<n>.0, whose bootstrap script says a line.
func (e *Fixture) Push(n int, line string) *osm.OperatingSystemProfile {
	version := fmt.Sprintf("v1.%d.0", n)
	osp := &osm.OperatingSystemProfile{
		ObjectMeta: e.meta(Namespace, "osp-x-"+version, At(n)),
		Spec: osm.OperatingSystemProfileSpec{
			OSName: "ubuntu", OSVersion: "24.04", Version: version, ProvisioningUtility: "cloud-init", SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "hetzner"}},
			BootstrapConfig: osm.OSPConfig{Files: []osm.File{
				file("/opt/bin/bootstrap", 755, "#!/bin/sh\n"+line+"\n"), file("/etc/token", 600, "{{ .Token }}\n"),
			}},
			ProvisioningConfig: osm.OSPConfig{Files: []osm.File{file("/etc/version", 644, "kubelet {{ .KubeVersion }}\n")}},
		},
	}
	osp.Labels = map[string]string{api.LabelManagedBy: api.FieldManager, api.LabelProfile: "osp-x", api.LabelSource: Source, api.LabelVersion: version}
	osp.Annotations = map[string]string{
		api.AnnotationDigest: profile.Digest(osp.Spec), api.AnnotationVersion: version,
		api.AnnotationRepository: Repository, api.AnnotationPath: "profiles/osp-x.yaml", api.AnnotationCommit: Commit(n), api.AnnotationChange: Change(n), api.AnnotationSelectedBy: Commit(n),
		api.AnnotationAuthor: "Ada <ada@example.com>", api.AnnotationCommittedAt: At(n).Format(time.RFC3339),
		api.AnnotationSignature: "commit " + Commit(n) + " by ada@example.com, ssh SHA256:x",
	}
	e.add(osp)
	ps := Get[*api.ProfileSource](e, Source)
	ps.Status.Revision = "main@sha1:" + Commit(n)
	ps.Status.Profiles = []api.ProfileEntry{{Name: "osp-x", Version: version, Object: osp.Name, Path: "profiles/osp-x.yaml", Commit: Commit(n), SelectedBy: Commit(n), Digest: profile.Digest(osp.Spec)}}
	return osp
}

// Redigest lets a profile's object say the digest that it has.
func (e *Fixture) Redigest(osp *osm.OperatingSystemProfile) {
	osp.Annotations[api.AnnotationDigest] = profile.Digest(osp.Spec)
}

func file(path string, mode int32, data string) osm.File {
	return osm.File{Path: path, Permissions: mode, Content: osm.FileContent{Inline: &osm.FileContentInline{Encoding: "b64", Data: data}}}
}

// Pool makes a MachineDeployment that asks for osp-x.
func (e *Fixture) Pool(name string) *machines.MachineDeployment {
	md := &machines.MachineDeployment{ObjectMeta: e.meta(Namespace, name, Noon)}
	md.Annotations = map[string]string{api.AnnotationOSP: "osp-x", api.AnnotationMDRevision: "1"}
	md.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"hetzner","cloudProviderSpec":{"token":"canary"},"operatingSystem":"ubuntu"}`)}
	md.Spec.Template.Spec.Versions.Kubelet = "1.36.3"
	e.add(md)
	return md
}

// Serve gives a pool version n at a time, and archives what it had. It returns the
// record.
func (e *Fixture) Serve(pool string, n int, at time.Time) render.Record {
	e.t.Helper()
	return e.ServeObject(pool, Get[*osm.OperatingSystemProfile](e, fmt.Sprintf("osp-x-v1.%d.0", n)), at)
}

// ServeObject is Serve for any OperatingSystemProfile.
func (e *Fixture) ServeObject(pool string, osp *osm.OperatingSystemProfile, at time.Time) render.Record {
	e.t.Helper()
	md := Get[*machines.MachineDeployment](e, pool)
	in := e.input(md, osp)
	out, err := render.NewEngine().Render(in)
	if err != nil {
		e.t.Fatal(err)
	}
	record, err := render.MarshalRecord(out.Record)
	if err != nil {
		e.t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(md)
	annotations := map[string]string{
		api.AnnotationPool: key.String(), api.AnnotationPoolUID: string(md.UID), api.AnnotationRevisionFor: "1", api.AnnotationProfile: out.Record.Profile,
		api.AnnotationVersion: out.Record.Version, api.AnnotationRepository: out.Record.Repository, api.AnnotationPath: out.Record.Path,
		api.AnnotationCommit: out.Record.Commit, api.AnnotationChange: out.Record.Change, api.AnnotationSelectedBy: out.Record.SelectedBy, api.AnnotationInputDigest: out.Record.Digests.Input,
	}
	names := lineage.NamesOf(key)
	osc := &osm.OperatingSystemConfig{ObjectMeta: e.meta(Namespace, names.Config, at), Spec: out.OSC}
	osc.Labels = map[string]string{api.LabelManagedBy: api.FieldManager}
	osc.Annotations = map[string]string{api.AnnotationRecord: string(record)}
	if had := e.served[pool]; had != nil {
		e.archive(had, at)
		osc.Annotations[api.AnnotationReplaces] = string(had.UID)
	}
	for k, v := range annotations {
		osc.Annotations[k] = v
	}
	e.served[pool] = osc
	e.add(osc)
	for i, name := range []string{names.Bootstrap, names.Provisioning} {
		e.secret(name, annotations, [][]byte{out.Bootstrap, out.Provisioning}[i])
	}
	e.settings(in)
	return out.Record
}

// Input is what version n is rendered from for a pool.
func (e *Fixture) Input(pool string, n int) render.Input {
	return e.input(Get[*machines.MachineDeployment](e, pool), Get[*osm.OperatingSystemProfile](e, fmt.Sprintf("osp-x-v1.%d.0", n)))
}

func (e *Fixture) input(md *machines.MachineDeployment, osp *osm.OperatingSystemProfile) render.Input {
	e.t.Helper()
	pool, err := render.DecodePool(md)
	if err != nil {
		e.t.Fatal(err)
	}
	a := osp.Annotations
	return render.Input{
		Profile: render.Profile{
			Spec: osp.Spec, Object: osp.Name, Digest: profile.Digest(osp.Spec), SelectedBy: a[api.AnnotationSelectedBy],
			Provenance: render.Provenance{
				Profile: osp.Labels[api.LabelProfile], Version: a[api.AnnotationVersion], Commit: a[api.AnnotationCommit], Change: a[api.AnnotationChange],
				Repository: a[api.AnnotationRepository], Path: a[api.AnnotationPath],
			},
		},
		Pool: pool, Settings: render.Settings{Namespace: Namespace, NodeHTTPProxy: "http://user:canary@proxy.example.com"},
		Cluster: render.Cluster{Server: "https://api.example.com:6443", APIServerToken: "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYW5hcnkifQ.canary-token", BootstrapToken: "canary.0123456789canary"},
	}
}

// archive puts the record of a configuration away, as reconcile/pools does.
func (e *Fixture) archive(osc *osm.OperatingSystemConfig, until time.Time) {
	e.t.Helper()
	Delete[*osm.OperatingSystemConfig](e, osc.Name)
	pool := osc.Annotations[api.AnnotationPool]
	namespace, name, _ := strings.Cut(pool, "/")
	interval := api.Interval{From: osc.CreationTimestamp, Until: metav1.NewTime(until), UID: osc.UID, Replaces: types.UID(osc.Annotations[api.AnnotationReplaces]), Revision: "1", SelectedBy: osc.Annotations[api.AnnotationSelectedBy]}
	recordName := lineage.RecordNames(types.NamespacedName{Namespace: namespace, Name: name}, osc.Annotations[api.AnnotationInputDigest])[0]
	for _, obj := range e.Objects {
		if cr, ok := obj.(*appsv1.ControllerRevision); ok && cr.Name == recordName {
			var had []api.Interval
			e.do(json.Unmarshal([]byte(cr.Annotations[api.AnnotationIntervals]), &had))
			cr.Annotations[api.AnnotationIntervals] = e.json(append(had, interval))
			return
		}
	}
	cr := &appsv1.ControllerRevision{ObjectMeta: e.meta(Namespace, recordName, until), Data: runtime.RawExtension{Raw: []byte(osc.Annotations[api.AnnotationRecord])}, Revision: until.Unix()}
	cr.Labels = map[string]string{api.LabelManagedBy: api.FieldManager, api.LabelPool: api.PoolLabel(namespace, name)}
	cr.Annotations = map[string]string{api.AnnotationIntervals: e.json([]api.Interval{interval})}
	for _, k := range []string{api.AnnotationPool, api.AnnotationProfile, api.AnnotationVersion, api.AnnotationRepository, api.AnnotationPath, api.AnnotationCommit, api.AnnotationChange, api.AnnotationInputDigest} {
		cr.Annotations[k] = osc.Annotations[k]
	}
	var rec render.Record
	e.do(json.Unmarshal(cr.Data.Raw, &rec))
	cr.Annotations[api.AnnotationSettingsDigest] = rec.SettingsDigest
	e.add(cr)
}

// secret replaces a Secret.
func (e *Fixture) secret(name string, annotations map[string]string, document []byte) {
	s := &corev1.Secret{ObjectMeta: e.meta(api.NamespaceCloudInitSettings, name, Noon), Data: map[string][]byte{api.UserDataKey: document}}
	s.Labels, s.Annotations = map[string]string{api.LabelManagedBy: api.FieldManager}, annotations
	for i, obj := range e.Objects {
		if have, ok := obj.(*corev1.Secret); ok && have.Name == name {
			s.UID, e.Objects[i] = have.UID, s
			return
		}
	}
	e.add(s)
}

func (e *Fixture) settings(in render.Input) {
	name := lineage.SettingsName(in.SettingsDigest())
	if slices.ContainsFunc(e.Objects, func(obj client.Object) bool { return obj.GetName() == name }) {
		return
	}
	cm := &corev1.ConfigMap{ObjectMeta: e.meta(Namespace, name, Noon), Data: map[string]string{lineage.SettingsKey: string(in.RedactedSettingsJSON())}}
	cm.Labels = map[string]string{api.LabelManagedBy: api.FieldManager}
	e.add(cm)
}

// Join makes a machine of a pool with its MachineSet, and its node, which joins a minute
// after. Says are the labels that it reports, nil for none.
func (e *Fixture) Join(pool, name string, at time.Time, says map[string]string) *corev1.Node {
	e.t.Helper()
	md := Get[*machines.MachineDeployment](e, pool)
	const group = "cluster.k8s.io/v1alpha1"
	ms := &machines.MachineSet{ObjectMeta: e.meta(Namespace, name, at)}
	ms.Annotations = map[string]string{api.AnnotationMDRevision: "1"}
	ms.OwnerReferences = []metav1.OwnerReference{{APIVersion: group, Kind: "MachineDeployment", Name: md.Name, UID: md.UID}}
	e.add(ms)
	m := &machines.Machine{ObjectMeta: e.meta(Namespace, name, at)}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: group, Kind: "MachineSet", Name: ms.Name, UID: ms.UID}}
	e.add(m)
	node := &corev1.Node{ObjectMeta: e.meta("", name, at.Add(time.Minute)), Spec: corev1.NodeSpec{ProviderID: "hcloud://" + name}}
	node.Labels = map[string]string{api.LabelOwnedBy: string(m.UID)}
	for k, v := range says {
		node.Labels[k] = v
	}
	m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID}
	e.add(node)
	return node
}

// Says are the labels of a node that was provisioned from a record.
func Says(rec render.Record) map[string]string {
	return map[string]string{api.LabelConfig: render.ShortDigest(rec.Digests.Input), api.LabelCommit: rec.Commit}
}

// Write records the origin of a node, as the controller does when it joins.
func (e *Fixture) Write(pool string, node *corev1.Node) *api.NodeProvenance {
	e.t.Helper()
	md, m := Get[*machines.MachineDeployment](e, pool), Get[*machines.Machine](e, node.Name)
	history := e.history(pool)
	window := lineage.NewProvenanceWindow(m.CreationTimestamp, node.CreationTimestamp)
	c := lineage.DetermineConfiguration(lineage.Observation{Report: lineage.ReportOf(node), Window: window, Revision: "1", Pool: history})
	np := &api.NodeProvenance{ObjectMeta: e.meta("", lineage.ProvenanceName(node.Name, node.UID), node.CreationTimestamp.Time)}
	np.Labels = map[string]string{api.LabelManagedBy: api.FieldManager, api.LabelNode: api.NodeLabel(node.Name), api.LabelPool: api.PoolLabel(Namespace, pool)}
	np.Spec = api.NodeProvenanceSpec{
		Node:     api.ProvenanceNode{Name: node.Name, UID: node.UID, ProviderID: node.Spec.ProviderID, Joined: node.CreationTimestamp},
		Machine:  api.ProvenanceMachine{Namespace: m.Namespace, Name: m.Name, UID: m.UID, Created: m.CreationTimestamp},
		Pool:     api.ProvenancePool{Namespace: Namespace, Name: pool, UID: md.UID, MachineSet: m.Name, Revision: "1"},
		Evidence: c.Evidence, Explanation: c.Explanation, Window: window, Possible: c.Possible.Configurations(),
	}
	if report := lineage.ReportOf(node); report != (api.NodeReport{}) {
		np.Spec.Reported, np.Status.Reported = &report, &report
	}
	if g := c.Configuration; g != nil {
		osp := Get[*osm.OperatingSystemProfile](e, "osp-x-"+g.Version)
		a := osp.Annotations
		np.Spec.Configuration = &api.ProvenanceConfiguration{
			InputDigest: g.InputDigest, Profile: g.Profile, Version: g.Version, Object: osp.Name, ProfileDigest: a[api.AnnotationDigest], Repository: a[api.AnnotationRepository],
			Path: a[api.AnnotationPath], Commit: g.Commit, ShortCommit: g.Commit[:12], Change: a[api.AnnotationChange], SelectedBy: g.SelectedBy,
			CommittedAt: a[api.AnnotationCommittedAt], Author: a[api.AnnotationAuthor], Signature: a[api.AnnotationSignature], Engine: render.EngineVersion,
		}
		bootstrap := c.Bootstrap.Configuration()
		np.Spec.Bootstrap = &bootstrap
	}
	np.Status.Conditions = []metav1.Condition{{Type: api.AgreedCondition, Status: c.Agreement.Status, Reason: c.Agreement.Reason, Message: c.Agreement.Message}}
	np.Status.Behind = api.BehindNo
	e.add(np)
	return np
}

func (e *Fixture) history(pool string) lineage.Timeline {
	var osc client.Object
	if have := e.served[pool]; have != nil {
		osc = have
	}
	var records []metav1.PartialObjectMetadata
	for _, obj := range e.Objects {
		if cr, ok := obj.(*appsv1.ControllerRevision); ok && cr.Annotations[api.AnnotationPool] == Namespace+"/"+pool {
			records = append(records, metav1.PartialObjectMetadata{ObjectMeta: cr.ObjectMeta})
		}
	}
	return lineage.NewTimeline(osc, records)
}

// RemoveNode removes a node, its machine and MachineSet at a time.
func (e *Fixture) RemoveNode(np *api.NodeProvenance, at time.Time) {
	e.t.Helper()
	Delete[*corev1.Node](e, np.Spec.Node.Name)
	Delete[*machines.Machine](e, np.Spec.Machine.Name)
	Delete[*machines.MachineSet](e, np.Spec.Pool.MachineSet)
	gone := metav1.NewTime(at)
	np.Status.Removed = &gone
}

// TwoPools is an estate with two pools; "others" remained at the first of three pushes. Nodes of
// "workers": "one" of the first push and "gone" of the second reported their configuration, and
// "gone" was removed; "two" of the second and "new" of the third report nothing, and "new" has no
// NodeProvenance yet.
func TwoPools(t testing.TB) *Fixture {
	t.Helper()
	e := New(t)
	e.Push(0, "echo one")
	e.Pool("workers")
	e.Pool("others")
	first := e.Serve("workers", 0, At(10))
	e.Serve("others", 0, At(10))
	e.Write("workers", e.Join("workers", "one", At(20), Says(first)))
	e.Push(1, "echo two")
	second := e.Serve("workers", 1, At(30))
	e.Write("workers", e.Join("workers", "two", At(40), nil))
	gone := e.Write("workers", e.Join("workers", "gone", At(41), Says(second)))
	e.Push(2, "echo three")
	e.Serve("workers", 2, At(50))
	e.Join("workers", "new", At(60), nil)
	e.RemoveNode(gone, At(70))
	for _, name := range []string{"one", "two"} {
		for _, obj := range e.Objects {
			if np, ok := obj.(*api.NodeProvenance); ok && np.Spec.Node.Name == name {
				np.Status.Behind = api.BehindYes
			}
		}
	}
	return e
}

// Dump is the estate as a file.
func (e *Fixture) Dump() []byte {
	e.t.Helper()
	var b bytes.Buffer
	line := func(v any) { b.WriteString(e.json(v) + "\n") }
	line(map[string]any{"header": map[string]any{"kind": "OSMGitopsDump", "version": 1, "written": At(100), "namespace": Namespace}})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, osm.AddToScheme, api.AddToScheme, machines.AddToScheme} {
		e.do(add(scheme))
	}
	for _, obj := range e.Objects {
		kinds, _, err := scheme.ObjectKinds(obj)
		e.do(err)
		obj.GetObjectKind().SetGroupVersionKind(kinds[0])
		line(map[string]any{"cluster": "management", "object": obj})
	}
	for _, kind := range e.ReadErrors {
		group := map[string]string{"NodeProvenance": api.GroupVersion.Group, "ControllerRevision": "apps", "Machine": machines.GroupVersion.Group}[kind]
		line(map[string]any{"cluster": "management", "unread": map[string]string{"group": group, "kind": kind, "state": "Unreadable", "why": "access denied"}})
	}
	line(map[string]any{"end": map[string]int{"objects": len(e.Objects)}})
	return b.Bytes()
}

// Clusters read the estate.
func (e *Fixture) Clusters() trace.Clusters {
	e.t.Helper()
	snapshot, err := dump.Read(bytes.NewReader(e.Dump()))
	e.do(err)
	c, err := offline.NewClusters(snapshot, nil)
	e.do(err)
	return c
}

func (e *Fixture) json(v any) string {
	e.t.Helper()
	text, err := json.Marshal(v)
	e.do(err)
	return string(text)
}

func (e *Fixture) do(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}
