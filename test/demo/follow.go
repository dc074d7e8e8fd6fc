package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fluxcd/pkg/apis/meta"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// sourceName is the ProfileSource of examples/profilesource.yaml.
const sourceName = "platform"

// pool is a MachineDeployment and the profile it asks for.
type pool struct{ namespace, name, profile string }

func (p pool) String() string { return p.namespace + "/" + p.name }

func (p pool) config() string { return p.name + "-" + p.namespace + "-config" }

func (p pool) secret(stage string) string {
	return p.name + "-" + p.namespace + "-" + stage + "-config"
}

// state is what a pool has.
type state struct {
	pool                    pool
	version, commit, author string
	bootstrap, provisioning *corev1.Secret
	config                  *osm.OperatingSystemConfig
	at                      time.Time // when the later of the two Secrets came
	took                    time.Duration
}

// same reports whether a pool has exactly the objects it had, unwritten since.
func (a state) same(b state) bool {
	return sameObject(a.bootstrap, b.bootstrap) && sameObject(a.provisioning, b.provisioning) && sameObject(a.config, b.config)
}

// changes names what differs between two states of a pool, without values: some are secret.
func (a state) changes(b state) string {
	var out []string
	for _, pair := range [][2]client.Object{{a.bootstrap, b.bootstrap}, {a.provisioning, b.provisioning}, {a.config, b.config}} {
		now, was := pair[0], pair[1]
		if sameObject(now, was) {
			continue
		}
		what := []string{"resourceVersion"}
		if now.GetUID() != was.GetUID() {
			what = append(what, "uid")
		}
		for k, v := range now.GetAnnotations() {
			if was.GetAnnotations()[k] != v {
				what = append(what, "annotation "+k)
			}
		}
		if !equality.Semantic.DeepEqual(now.GetManagedFields(), was.GetManagedFields()) {
			for _, m := range now.GetManagedFields() {
				what = append(what, fmt.Sprintf("%s by %s at %s", m.Operation, m.Manager+m.Subresource, m.Time))
			}
		}
		out = append(out, now.GetName()+" ("+strings.Join(what, ", ")+")")
	}
	return strings.Join(out, "; ")
}

func sameObject(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}

// outcome is what the pools have after a push.
type outcome struct {
	pools         []state  // in the order of their names
	rotated, kept []string // pools, compared with the outcome before
}

// pools lists the MachineDeployments with a profile.
func (s *stage) pools(ctx context.Context) ([]pool, error) {
	var list machines.MachineDeploymentList
	if err := s.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing MachineDeployments: %w", err)
	}
	var out []pool
	for _, md := range list.Items {
		if profile := md.Annotations[api.AnnotationOSP]; profile != "" {
			out = append(out, pool{md.Namespace, md.Name, profile})
		}
	}
	slices.SortFunc(out, func(a, b pool) int { return strings.Compare(a.String(), b.String()) })
	if len(out) == 0 {
		return nil, errors.New("the cluster has no pools")
	}
	return out, nil
}

// follow waits until the source is at a commit and every pool has what that
// commit holds, and says who changed.
func (s *stage) follow(ctx context.Context, c commit, pools []pool, pushed time.Time, before *outcome) (outcome, error) {
	var out outcome
	err := s.seen.until(ctx, "every pool to have its Secrets from commit "+short(c.hash), func() string {
		source, _, ok := get[*api.ProfileSource](s.seen, metav1.NamespaceSystem, sourceName)
		if !ok || !strings.HasSuffix(source.Status.Revision, c.hash) || ready(source.Status.Conditions).Status != metav1.ConditionTrue {
			if ok {
				return "ProfileSource " + sourceName + ": " + ready(source.Status.Conditions).Message
			}
			return "ProfileSource " + sourceName + " is not there"
		}
		out.pools = nil
		for _, p := range pools {
			now, why := s.stateOf(source, p)
			if why != "" {
				return why
			}
			now.took = now.at.Sub(pushed)
			out.pools = append(out.pools, now)
		}
		return ""
	})
	if err != nil {
		return out, err
	}
	if err := s.toldOwners(ctx, out); err != nil || before == nil {
		return out, err
	}
	for i, now := range out.pools {
		was := before.pools[i]
		switch {
		case now.same(was):
			out.kept = append(out.kept, now.pool.String())
		case now.commit == was.commit:
			return out, fmt.Errorf("%s was written to although its profile is still at commit %s: %s", now.pool, short(now.commit), now.changes(was))
		case now.bootstrap.UID != was.bootstrap.UID || now.provisioning.UID != was.provisioning.UID:
			return out, fmt.Errorf("a Secret of %s was deleted and made again, not replaced", now.pool)
		default:
			out.rotated = append(out.rotated, now.pool.String())
		}
	}
	return out, nil
}

// toldOwners waits until each pool has an event that names the commit it is at.
func (s *stage) toldOwners(ctx context.Context, o outcome) error {
	return s.seen.until(ctx, "events on the pools", func() string {
		for _, p := range o.pools {
			if !slices.ContainsFunc(all[*eventsv1.Event](s.seen), func(e *eventsv1.Event) bool {
				return e.Regarding.Namespace == p.pool.namespace && e.Regarding.Name == p.pool.name && strings.Contains(e.Note, "at commit "+p.commit[:12])
			}) {
				return fmt.Sprintf("none of %s names commit %s", p.pool, short(p.commit))
			}
		}
		return ""
	})
}

// stateOf returns what a pool has, or what it lacks. It is used inside a condition.
func (s *stage) stateOf(source *api.ProfileSource, p pool) (state, string) {
	i := slices.IndexFunc(source.Status.Profiles, func(e api.ProfileEntry) bool { return e.Name == p.profile })
	if i < 0 {
		return state{}, fmt.Sprintf("ProfileSource %s has no profile %s", sourceName, p.profile)
	}
	want := source.Status.Profiles[i]
	now := state{pool: p, version: want.Version, commit: want.Commit}
	osp, _, ok := get[*osm.OperatingSystemProfile](s.seen, metav1.NamespaceSystem, want.Object)
	if !ok {
		return now, "OperatingSystemProfile " + want.Object + " is missing"
	}
	now.author, _, _ = strings.Cut(osp.Annotations[api.AnnotationAuthor], " <")
	for _, part := range []struct {
		stage string
		into  **corev1.Secret
	}{{"bootstrap", &now.bootstrap}, {"provisioning", &now.provisioning}} {
		secret, at, ok := get[*corev1.Secret](s.seen, api.NamespaceCloudInitSettings, p.secret(part.stage))
		if !ok || secret.Annotations[api.AnnotationCommit] != want.Commit || len(secret.Data[api.UserDataKey]) == 0 {
			return now, fmt.Sprintf("Secret %s is not of commit %s", p.secret(part.stage), short(want.Commit))
		}
		*part.into = secret
		if at.After(now.at) {
			now.at = at
		}
	}
	config, _, ok := get[*osm.OperatingSystemConfig](s.seen, metav1.NamespaceSystem, p.config())
	if !ok || config.Annotations[api.AnnotationCommit] != want.Commit || config.Annotations[api.AnnotationRefused] != "" ||
		now.bootstrap.Annotations[api.AnnotationInputDigest] != config.Annotations[api.AnnotationInputDigest] {
		return now, fmt.Sprintf("OperatingSystemConfig %s is not ready for commit %s", p.config(), short(want.Commit))
	}
	now.config = config
	return now, ""
}

// table shows all pools.
func (o outcome) table() [][]string {
	rows := [][]string{{"POOL", "PROFILE", "VERSION", "COMMIT", "AUTHOR", "<BOOTSTRAP", "<PROVISIONING", "<READY AFTER"}}
	for _, p := range o.pools {
		rows = append(rows, []string{p.pool.String(), p.pool.profile, p.version, short(p.commit), p.author,
			kib(len(p.bootstrap.Data[api.UserDataKey])), kib(len(p.provisioning.Data[api.UserDataKey])), seconds(p.took)})
	}
	return rows
}

// changedPools shows the pools that changed.
func (o outcome) changedPools() [][]string {
	rows := [][]string{{"POOL", "VERSION", "COMMIT", "AUTHOR", "<READY AFTER"}}
	for _, p := range o.pools {
		if slices.Contains(o.rotated, p.pool.String()) {
			rows = append(rows, []string{p.pool.String(), p.version, short(p.commit), p.author, seconds(p.took)})
		}
	}
	return rows
}

func (o outcome) untouched() string {
	return "Untouched, by uid and resourceVersion: " + strings.Join(o.kept, ", ")
}

// written reports whether a pool's provisioning stage writes a line to a file.
func (o outcome) written(pool, path, line string) bool {
	return slices.ContainsFunc(o.pools, func(p state) bool {
		return p.pool.String() == pool && slices.Contains(p.file(path), line)
	})
}

// file returns the lines of a file of the provisioning stage.
func (a state) file(path string) []string {
	var doc struct {
		WriteFiles []struct {
			Path    string `json:"path"`
			Content string `json:"content"`
		} `json:"write_files"`
	}
	if yaml.Unmarshal(a.provisioning.Data[api.UserDataKey], &doc) != nil {
		return nil
	}
	for _, f := range doc.WriteFiles {
		if f.Path == path {
			return strings.Split(f.Content, "\n")
		}
	}
	return nil
}

// requestReconcile requests a reconciliation of the source as Flux's command line does, and returns the
// value that it wrote.
func (s *stage) requestReconcile(ctx context.Context) (string, error) {
	token := time.Now().UTC().Format(time.RFC3339Nano)
	ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: sourceName}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, meta.ReconcileRequestAnnotation, token)
	if err := s.client.Patch(ctx, ps, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return token, fmt.Errorf("requesting a reconciliation of ProfileSource %s: %w", sourceName, err)
	}
	return token, nil
}

// told is what the author of a rejected profile can read in the cluster.
type told struct {
	condition metav1.Condition
	event     string
}

func (t told) text() string {
	event := "\n" + indent(t.event, "    ")
	if strings.Contains(t.condition.Message, t.event) {
		event = ", the same"
	}
	return fmt.Sprintf("  condition  Ready=%s, %s\n%s\n  event      %s%s",
		t.condition.Status, t.condition.Reason, indent(t.condition.Message, "    "), api.EventProfileRefused, event)
}

// toldOf waits until the source says what is wrong with a commit.
func (s *stage) toldOf(ctx context.Context, c commit) (told, error) {
	var t told
	err := s.seen.until(ctx, "commit "+short(c.hash)+" to be refused", func() string {
		source, _, ok := get[*api.ProfileSource](s.seen, metav1.NamespaceSystem, sourceName)
		if !ok || !strings.HasSuffix(source.Status.LastAttemptedRevision, c.hash) {
			return "ProfileSource " + sourceName + " has not been reconciled"
		}
		if t.condition = ready(source.Status.Conditions); t.condition.Status != metav1.ConditionFalse {
			return "ProfileSource " + sourceName + " is ready"
		}
		for _, e := range all[*eventsv1.Event](s.seen) {
			if e.Regarding.Name == sourceName && e.Reason == api.EventProfileRefused {
				t.event = e.Note
				return ""
			}
		}
		return "no event " + api.EventProfileRefused
	})
	return t, err
}

// unchanged says that the pools have what they had, object by object.
func (s *stage) unchanged(before outcome) (string, error) {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	for _, was := range before.pools {
		for _, obj := range []client.Object{was.bootstrap, was.provisioning, was.config} {
			now, ok := s.seen.objects[keyOf(obj)]
			if !ok || !sameObject(now.Object, obj) {
				return "", fmt.Errorf("%s of %s has changed", obj.GetName(), was.pool)
			}
		}
	}
	return fmt.Sprintf("%d Secrets and %d configurations, the same uid and resourceVersion.", 2*len(before.pools), len(before.pools)), nil
}

// readyLine is the source's column in `kubectl get`.
func (s *stage) readyLine() string {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	source, _, _ := get[*api.ProfileSource](s.seen, metav1.NamespaceSystem, sourceName)
	if source == nil {
		return ""
	}
	c := ready(source.Status.Conditions)
	return fmt.Sprintf("ProfileSource %s: Ready=%s, %s", sourceName, c.Status, c.Message)
}

// events lists the controller's events.
func (s *stage) events() []string {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	var out []string
	for _, e := range all[*eventsv1.Event](s.seen) {
		if e.ReportingController == api.FieldManager {
			out = append(out, fmt.Sprintf("%s: %s: %s", e.Regarding.Name, e.Reason, e.Note))
		}
	}
	slices.Sort(out)
	return out
}

// deleted lists the user-data Secrets that were deleted at any time.
func (o *observer) deleted() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.gone)
}
