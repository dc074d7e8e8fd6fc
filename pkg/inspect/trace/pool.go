package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// MachineDeployment follows a pool to where what it gives to machines now is from, with
// a page of its nodes. Without a namespace it is looked for in all of them.
func (c Clusters) MachineDeployment(ctx context.Context, key types.NamespacedName, page Page) (*Result, error) {
	subject := Object{Kind: "MachineDeployment", Namespace: key.Namespace, Name: key.Name}
	if key.Namespace == "" {
		found, err := c.findPoolByName(ctx, key.Name)
		if err != nil {
			return nil, err
		}
		key, subject.Namespace = found, found.Namespace
	}
	w := &resultBuilder{in: c, Result: Result{Subject: subject, Pool: key.String()}}
	md, err := w.addPoolStep(ctx, subject)
	if err != nil {
		return nil, err
	}
	if md != nil {
		w.Subject.UID = md.UID
	}
	if w.recorded, err = c.recordedStateOf(ctx, key); err != nil {
		return nil, err
	}
	if w.Nodes, err = c.nodePage(ctx, page, client.MatchingLabels{api.LabelPool: api.PoolLabel(key.Namespace, key.Name)}, func(np *api.NodeProvenance) bool {
		return np.Spec.Pool.Namespace == key.Namespace && np.Spec.Pool.Name == key.Name
	}); err != nil {
		return nil, err
	}
	if md == nil && w.recorded.state == Missing && len(w.recorded.Timeline) == 0 && w.Nodes.Total == 0 {
		return nil, &NotFoundError{Object: subject, Hint: strings.Join(w.listReadErrors(), "; ")}
	}
	return w.traceCurrentConfiguration(ctx)
}

// Config follows an OperatingSystemConfig of the controller's namespace.
func (c Clusters) Config(ctx context.Context, name string) (*Result, error) {
	subject := Object{Kind: "OperatingSystemConfig", Namespace: c.Namespace, Name: name}
	var osc osm.OperatingSystemConfig
	if err := getExisting(ctx, c.Management, subject, &osc); err != nil {
		return nil, err
	}
	subject.UID = osc.UID
	w := &resultBuilder{in: c, Result: Result{Subject: subject}}
	key, ok := lineage.ParsePool(lineage.PoolOf(&osc))
	if !ok {
		w.addStep(subject, Foreign, "it names no pool: operating-system-manager or a user created it").addDetail("reported version", osc.Annotations[api.AnnotationOSPVersion])
		return &w.Result, nil
	}
	if name != lineage.NamesOf(key).Config {
		w.addStep(subject, Foreign, fmt.Sprintf("its annotation names MachineDeployment %s, whose configuration has another name", key))
		return &w.Result, nil
	}
	return w.tracePoolObject(ctx, subject, key)
}

// Secret follows a Secret of api.NamespaceCloudInitSettings, or of another namespace where
// one is given. Its data is not read.
func (c Clusters) Secret(ctx context.Context, key types.NamespacedName) (*Result, error) {
	subject := Object{Kind: secretKind.Kind, Namespace: cmp.Or(key.Namespace, api.NamespaceCloudInitSettings), Name: key.Name}
	secret := kubeclient.Metadata(secretKind)
	err := getExisting(ctx, c.Worker, subject, secret)
	if err != nil {
		return nil, err
	}
	subject.UID = secret.UID
	w := &resultBuilder{in: c, Result: Result{Subject: subject}}
	pool, ok := lineage.ParsePool(lineage.PoolOf(secret))
	digest := secret.Annotations[api.AnnotationInputDigest]
	switch {
	case !ok:
		w.addStep(subject, Foreign, "it names no pool: this controller did not create it").addDetail("reported version", secret.Annotations[api.AnnotationOSPVersion])
		return &w.Result, nil
	case digest == "":
		w.addStep(subject, Found, "it contains data that all nodes of its pool share, and is not from a commit")
		return w.tracePoolObject(ctx, subject, pool)
	}
	if _, err := w.addPoolStep(ctx, Object{Kind: "MachineDeployment", Namespace: pool.Namespace, Name: pool.Name, UID: types.UID(secret.Annotations[api.AnnotationPoolUID])}); err != nil {
		return nil, err
	}
	if w.recorded, err = c.recordedStateOf(ctx, pool); err != nil {
		return nil, err
	}
	w.Pool = pool.String()
	w.Behind = w.setBehindComparedToCurrent(digest, secret.Annotations[api.AnnotationProfile], secret.Annotations[api.AnnotationVersion])
	return w.traceFromConfiguration(ctx, tracedConfiguration{
		digest: digest, profile: secret.Annotations[api.AnnotationProfile], version: secret.Annotations[api.AnnotationVersion],
		commit: secret.Annotations[api.AnnotationCommit], selectedBy: secret.Annotations[api.AnnotationSelectedBy],
	})
}

// tracePoolObject traces an object that was created for a pool: the pool's current configuration.
func (w *resultBuilder) tracePoolObject(ctx context.Context, subject Object, pool types.NamespacedName) (*Result, error) {
	if _, err := w.addPoolStep(ctx, Object{Kind: "MachineDeployment", Namespace: pool.Namespace, Name: pool.Name}); err != nil {
		return nil, err
	}
	var err error
	if w.recorded, err = w.in.recordedStateOf(ctx, pool); err != nil {
		return nil, err
	}
	w.Pool, w.Subject = pool.String(), subject
	return w.traceCurrentConfiguration(ctx)
}

// traceCurrentConfiguration makes the trail of what a pool has now.
func (w *resultBuilder) traceCurrentConfiguration(ctx context.Context) (*Result, error) {
	rec := w.recorded.rec
	if rec == nil {
		w.addConfigStep("")
		return &w.Result, nil
	}
	return w.traceFromConfiguration(ctx, tracedConfiguration{digest: rec.Digests.Input, profile: lineage.ProfileOrObjectName(*rec), version: rec.Version, commit: rec.Commit, selectedBy: rec.SelectedBy})
}

// traceUnjoinedMachine makes the trail of a machine without a node.
func (w *resultBuilder) traceUnjoinedMachine(ctx context.Context, m *cluster.Machine) (*Result, error) {
	step := w.addStep(w.Subject, Found, "no node of it has joined yet: below is the current configuration of its pool")
	step.addDetail("created", formatTime(m.CreationTimestamp.Time))
	if err := w.addBoots(ctx, m); err != nil {
		return nil, err
	}
	c, err := w.addStepsBelowPool(ctx, m)
	if err != nil || c.Pool.Name == "" {
		return &w.Result, err
	}
	return w.tracePoolObject(ctx, w.Subject, c.Pool.NamespacedName)
}

func (c Clusters) findPoolByName(ctx context.Context, name string) (types.NamespacedName, error) {
	var found []types.NamespacedName
	_, note, err := List(ctx, c.Worker, &cluster.MachineDeploymentList{}, func(page *cluster.MachineDeploymentList) error {
		for i := range page.Items {
			found = append(found, client.ObjectKeyFromObject(&page.Items[i]))
		}
		return nil
	}, client.MatchingFields{metav1.ObjectNameField: name})
	switch {
	case err != nil:
		return types.NamespacedName{}, err
	case len(found) == 0:
		return types.NamespacedName{}, &NotFoundError{Object: Object{Kind: "MachineDeployment", Name: name}, Hint: cmp.Or(note, "if it was deleted, write the namespace as well: machinedeployment/NAMESPACE/NAME")}
	case len(found) > 1:
		return types.NamespacedName{}, fmt.Errorf("several namespaces have a MachineDeployment %q, including %s and %s: write machinedeployment/NAMESPACE/NAME", name, found[0].Namespace, found[1].Namespace)
	}
	return found[0], nil
}

// addMachineSetStep adds a MachineSet, and reports whether it is the one that is named.
func (w *resultBuilder) addMachineSetStep(ctx context.Context, obj Object, set lineage.Object) (bool, error) {
	state, note, err := getWithState(ctx, w.in.Worker, types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}, set)
	if err != nil {
		return false, err
	}
	switch {
	case state == Missing:
		state = Removed // another object names it
	case state == Found && obj.UID != "" && set.GetUID() != obj.UID:
		state, note = Removed, "another MachineSet has its name now"
	case state == Found:
		obj.UID = set.GetUID()
	}
	step := w.addStep(obj, state, note)
	if state == Found {
		step.addDetail("revision", set.GetAnnotations()[api.AnnotationMDRevision])
	}
	return state == Found, nil
}

// addPoolStep adds a MachineDeployment.
func (w *resultBuilder) addPoolStep(ctx context.Context, obj Object) (*cluster.MachineDeployment, error) {
	var md cluster.MachineDeployment
	state, note, err := getWithState(ctx, w.in.Worker, types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}, &md)
	if err != nil {
		return nil, err
	}
	asks := md.Annotations[api.AnnotationOSP]
	switch {
	case state == Missing:
		state, note = Removed, cmp.Or(note, "the pool was deleted")
	case state == Found && obj.UID != "" && md.UID != obj.UID:
		state, note = Removed, "another MachineDeployment has its name now"
	case state == Found && asks == "":
		state, note = Foreign, "it requests no profile: this controller does not serve it"
	}
	if state == Found {
		obj.UID = md.UID
	}
	step := w.addStep(obj, state, note)
	if state != Found && state != Foreign {
		return nil, nil
	}
	step.addDetail("asks for", asks)
	step.addDetail("pinned to", md.Annotations[api.AnnotationVersionPin])
	step.addDetail("suspended", md.Annotations[api.AnnotationSuspend])
	step.addDetail("revision", md.Annotations[api.AnnotationMDRevision])
	return &md, nil
}

// tracedConfiguration is a configuration that something was made from.
type tracedConfiguration struct {
	digest, profile, version string
	commit, selectedBy       string
	written                  *api.ProvenanceConfiguration // nil but for a node that something is written about
}

// traceFromConfiguration adds the steps from a configuration to its commit.
func (w *resultBuilder) traceFromConfiguration(ctx context.Context, m tracedConfiguration) (*Result, error) {
	w.InputDigest = clean(m.digest)
	w.Profile = clean(m.profile)
	w.Version = clean(m.version)
	g := w.addConfigStep(m.digest)
	rec, err := w.addRecordStep(ctx, m, g)
	if err != nil {
		return nil, err
	}
	if err := w.addSecretSteps(ctx, m.digest); err != nil {
		return nil, err
	}
	object := ""
	switch {
	case rec != nil:
		object = rec.Object
		w.ProfileDigest = rec.ObjectDigest
		w.Engine = rec.Engine
		w.compareRecord(m, *rec)
	case m.written != nil:
		object = m.written.Object
		w.ProfileDigest = m.written.ProfileDigest
		w.Engine = m.written.Engine
	}
	w.Object = clean(object)
	w.Commit = commitFromRecords(m, rec)
	return &w.Result, w.addOriginSteps(ctx, object)
}

// addConfigStep adds the pool's OperatingSystemConfig, and says whether it is what has a
// digest. It returns the generation of that digest.
func (w *resultBuilder) addConfigStep(digest string) *lineage.Generation {
	obj := Object{Kind: "OperatingSystemConfig", Namespace: w.in.Namespace, Name: lineage.NamesOf(w.recorded.pool).Config}
	var last *lineage.Generation
	for _, g := range w.recorded.Timeline {
		if g.InputDigest == digest {
			last = &g
		}
	}
	state, note := w.recorded.state, w.recorded.note
	if w.recorded.config != nil {
		obj.UID = w.recorded.config.UID
	}
	if state == Found && digest != "" && w.recorded.rec.Digests.Input != digest {
		state = Replaced
		note = ""
		obj.UID = ""
		if current, ok := w.recorded.Current(); ok {
			note = fmt.Sprintf("the pool has %s %s now", current.Profile, current.Version)
		}
		if last != nil && !last.Until.IsZero() {
			note = fmt.Sprintf("at %s; %s", formatTime(last.Until), note)
		}
	}
	if state == Missing && digest != "" {
		state, note = Removed, "the pool has no configuration now"
	}
	step := w.addStep(obj, state, note)
	if state == Edited {
		w.disagree("%s: %s", obj, note)
	}
	if osc := w.recorded.config; osc != nil && state == Found {
		w.addConfigDetails(step, osc)
	}
	return last
}

func (w *resultBuilder) addConfigDetails(step *Step, osc *osm.OperatingSystemConfig) {
	rec := w.recorded.rec
	step.addDetail("version", rec.Version)
	step.addDetail("commit", rec.Commit)
	step.addDetail("input digest", rec.Digests.Input)
	step.addDetail("since", formatTime(osc.CreationTimestamp.Time))
	step.addDetail("refused", osc.Annotations[api.AnnotationRefused])
	for _, c := range []struct{ key, want string }{
		{api.AnnotationVersion, rec.Version}, {api.AnnotationCommit, rec.Commit}, {api.AnnotationRepository, rec.Repository}, {api.AnnotationInputDigest, rec.Digests.Input},
	} {
		if got := osc.Annotations[c.key]; got != c.want {
			step.State = Edited
			w.disagree("%s: annotation %s says %q, its record says %q", step.Object, c.key, got, c.want)
		}
	}
}

// addRecordStep adds the archived record of a generation, unless the OperatingSystemConfig has it. It
// returns nil if there is no record.
func (w *resultBuilder) addRecordStep(ctx context.Context, m tracedConfiguration, g *lineage.Generation) (*render.Record, error) {
	stored, err := w.in.recordIn(ctx, w.recorded, w.recorded.pool, m.digest)
	var none *NotFoundError
	var edited *EditedError
	switch {
	case errors.As(err, &edited):
		if edited.Object.Kind == recordKind.Kind { // or it was said
			w.addStep(edited.Object, Edited, edited.Why)
			w.disagree("%v", edited)
		}
		return nil, nil
	case errors.As(err, &none):
		state := Missing
		if none.Hint == noPermission {
			state = Unreadable
		}
		w.addStep(none.Object, state, cmp.Or(w.recorded.readError, none.Hint))
		return nil, nil
	case err != nil:
		return nil, err
	}
	if stored.Config == nil {
		step := w.addStep(objectOfRecord(stored.Archived), Found, "")
		step.addDetail("version", stored.Record.Version)
		step.addDetail("commit", stored.Record.Commit)
		step.addDetail("input digest", stored.Record.Digests.Input)
		if g != nil {
			step.addDetail("since", formatTime(g.From))
			step.addDetail("until", formatTime(g.Until))
		}
	}
	return &stored.Record, nil
}

// compareRecord compares what something says with the record that it names.
func (w *resultBuilder) compareRecord(m tracedConfiguration, rec render.Record) {
	type claim struct{ what, says, recorded string }
	claims := []claim{{"version", m.version, rec.Version}, {"commit", m.commit, rec.Commit}, {"profile", m.profile, lineage.ProfileOrObjectName(rec)}}
	who := w.Subject.String()
	if s := m.written; s != nil {
		who = "NodeProvenance " + w.np.Name
		claims = append(claims, claim{"repository", s.Repository, rec.Repository}, claim{"path", s.Path, rec.Path}, claim{"change", s.Change, rec.Change},
			claim{"object", s.Object, rec.Object}, claim{"profile digest", s.ProfileDigest, rec.ObjectDigest})
	}
	for _, c := range claims {
		if c.says != c.recorded {
			w.disagree("%s says %s %q, the record of its configuration says %q", who, c.what, c.says, c.recorded)
		}
	}
}

// addSecretSteps adds the pool's two Secrets, of which it reads metadata.
func (w *resultBuilder) addSecretSteps(ctx context.Context, digest string) error {
	names := lineage.NamesOf(w.recorded.pool)
	for _, name := range []string{names.Bootstrap, names.Provisioning} {
		secret := kubeclient.Metadata(secretKind)
		obj := Object{Kind: secretKind.Kind, Namespace: api.NamespaceCloudInitSettings, Name: name}
		state, note, err := getWithState(ctx, w.in.Worker, types.NamespacedName{Namespace: obj.Namespace, Name: name}, secret)
		if err != nil {
			return err
		}
		a := secret.Annotations
		switch {
		case state == Missing:
			state, note = Removed, "the pool has none now"
		case state != Found:
		case a[api.AnnotationPool] == "":
			state, note = Foreign, "this controller did not create it"
		case a[api.AnnotationPool] != w.recorded.pool.String():
			state = Foreign
			note = "it belongs to MachineDeployment " + a[api.AnnotationPool] + ", whose name and namespace make the same object names"
		case a[api.AnnotationInputDigest] != digest:
			state = Replaced
			note = fmt.Sprintf("the current one is that of %s %s", a[api.AnnotationProfile], a[api.AnnotationVersion])
			// The configuration is written before the documents.
			if now, ok := w.recorded.Current(); ok && now.InputDigest == digest {
				state = Missing
				note = fmt.Sprintf("the document of this configuration is not written yet; machines boot from that of %s %s", a[api.AnnotationProfile], a[api.AnnotationVersion])
			}
		default:
			obj.UID = secret.UID
		}
		step := w.addStep(obj, state, note)
		if state == Found {
			step.addDetail("input digest", a[api.AnnotationInputDigest])
			step.addDetail("data digest", a[api.AnnotationDataDigest])
			step.addDetail("credentials until", a[api.AnnotationCredentialsExpireAt])
		}
	}
	return nil
}

// setBehindComparedToCurrent compares a configuration with what its pool has now.
func (w *resultBuilder) setBehindComparedToCurrent(digest, profile, version string) *Behind {
	w.compare = &api.NodeProvenance{Spec: api.NodeProvenanceSpec{Configuration: &api.ProvenanceConfiguration{InputDigest: digest, Profile: profile, Version: version}}}
	for _, g := range w.recorded.Timeline {
		if g.InputDigest == digest {
			w.compare.Spec.Window.Until = metav1.NewTime(g.From)
		}
	}
	w.setBehind()
	return w.Behind
}
