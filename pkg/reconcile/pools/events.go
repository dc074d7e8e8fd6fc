package pools

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// past is what stood before a plan was applied.
type past struct {
	objects objects
	spec    *osm.OperatingSystemConfigSpec // of a configuration that was replaced
	// refused is what the configuration said of a newer one.
	refused string
	// unkept is set where the audit log lacks the configuration that stands now.
	unkept bool
}

// pastOf remembers what apply changes on the objects themselves.
func pastOf(have objects) *past {
	p := &past{objects: have}
	if have.osc == nil {
		return p
	}
	p.refused = have.osc.Annotations[api.AnnotationRefused]
	return p
}

// keptMessage is what a configuration says while a newer one is refused.
func keptMessage(p plan) string {
	message := p.refusal.Error()
	if p.unrenewed != nil {
		message += "; its Secrets stay as they are: " + p.unrenewed.Error()
	}
	return redact.Shorten(redact.Printable(message), redact.MaxCondition)
}

// tellDone reports what an applied plan came to: what was made, rotated or put back,
// and whether the pool has what it asks for.
func (r *Reconciler) tellDone(md *cluster.MachineDeployment, p plan) {
	switch {
	case p.osc != nil && !p.sameAgain:
		r.tellRotated(md, p)
	case len(p.healed) > 0:
		r.Metrics.Rotated(metrics.Restored)
	case p.provisioning.write != nil || p.bootstrap.write != nil:
		r.Metrics.Rotated(metrics.Credentials)
	}
	if len(p.healed) > 0 {
		r.event(md, corev1.EventTypeNormal, api.EventConfigRestored, "put back what somebody changed: "+strings.Join(p.healed, ", "))
	}
	reason := ""
	switch {
	case p.refusal != nil:
		reason = r.tellKept(md, p)
	case p.unread == nil:
		r.tellHealed(md, p)
	}
	r.Metrics.Pool(client.ObjectKeyFromObject(md), p.state(reason))
}

// tellKept reports why the last good configuration is kept, once until it changes:
// the configuration tells what was reported before a restart.
func (r *Reconciler) tellKept(md *cluster.MachineDeployment, p plan) string {
	reason, _ := fault.Permanent(p.refusal)
	told := p.refusal
	if p.unrenewed != nil {
		told = fmt.Errorf("%w; the last good configuration stays as it is: %w", p.refusal, p.unrenewed)
	}
	if p.was.refused == keptMessage(p) {
		r.memories.remember(md, func(m *memory) { m.told = cmp.Or(m.told, told.Error()) })
	}
	r.tell(md, reason, told)
	return reason
}

func (r *Reconciler) tellHealed(md *cluster.MachineDeployment, p plan) {
	told := r.memories.recall(md).told != ""
	if told {
		r.memories.remember(md, func(m *memory) { m.told = "" })
	}
	if frozen, _ := suspended(md); frozen {
		return // what it cannot have does not matter now
	}
	if (told || p.was.refused != "") && p.osc == nil {
		r.event(md, corev1.EventTypeNormal, api.EventConfigHealed,
			fmt.Sprintf("the pool has what it asks for again: profile %q %s%s", p.serving.Profile, p.serving.Version, at(p.serving.Commit)))
	}
}

func (r *Reconciler) tellRotated(md *cluster.MachineDeployment, p plan) {
	from, to := p.replaced, p.serving
	if from.Object == "" {
		r.Metrics.Rotated(metrics.Created)
		r.event(md, corev1.EventTypeNormal, api.EventConfigCreated,
			fmt.Sprintf("made the configuration of profile %q %s%s%s", to.Profile, to.Version, at(to.Commit), p.differences()))
		return
	}
	why := cause(from, to)
	r.Metrics.Rotated(why)
	text := fmt.Sprintf("rotated from profile %q %s%s to %q %s%s", from.Profile, from.Version, at(from.Commit), to.Profile, to.Version, at(to.Commit))
	switch why {
	case metrics.Pool:
		text = fmt.Sprintf("rotated for a change of the pool; profile %q is still %s%s", to.Profile, to.Version, at(to.Commit))
	case metrics.Settings:
		text = fmt.Sprintf("rotated for a change of the controller's settings; profile %q is still %s%s", to.Profile, to.Version, at(to.Commit))
	}
	if p.was.spec != nil {
		text += "; " + changes(*p.was.spec, p.osc.Spec)
	}
	r.event(md, corev1.EventTypeNormal, api.EventConfigRotated, text)
}

// cause says what made one generation another.
func cause(from, to render.Record) string {
	sameProfile := from.Profile == to.Profile && from.Version == to.Version && from.ObjectDigest == to.ObjectDigest && from.Commit == to.Commit
	switch {
	case sameProfile && !reflect.DeepEqual(from.Pool, to.Pool):
		return metrics.Pool
	case sameProfile && from.SettingsDigest != to.SettingsDigest:
		return metrics.Settings
	}
	return metrics.Profile
}

// state is what metrics tell of a pool.
func (p plan) state(refused string) metrics.PoolState {
	s := metrics.PoolState{
		Profile: p.serving.Profile, Version: p.serving.Version, Commit: p.serving.Commit,
		Refused: refused, TokenEnds: p.expires,
	}
	bootstrap := p.bootstrap.write
	if bootstrap == nil {
		bootstrap = p.was.objects.bootstrap
	}
	if bootstrap == nil {
		return s
	}
	s.NodeTokenEnds = lineage.AnnotatedTime(bootstrap.Annotations, api.AnnotationCredentialsExpireAt)
	// Documents of earlier releases do not say how large they are.
	if size, err := strconv.Atoi(bootstrap.Annotations[api.AnnotationUserDataBytes]); err == nil {
		s.UserData, s.Limit = size, p.serving.Pool.UserDataLimit()
	}
	return s
}

// maxChanges bounds the part of an event that names what differs, in bytes.
const maxChanges = 600

// changes names what differs between two configurations, by stage: files by path,
// units by name, what else a stage has by field. "+" is new, "-" is gone.
func changes(before, after osm.OperatingSystemConfigSpec) string {
	var names []string
	for _, stage := range []struct {
		name          string
		before, after osm.OSCConfig
	}{
		{stageBootstrap, before.BootstrapConfig, after.BootstrapConfig},
		{stageProvision, before.ProvisioningConfig, after.ProvisioningConfig},
	} {
		for _, name := range changedParts(stage.before, stage.after) {
			names = append(names, stage.name+" "+name)
		}
	}
	if len(names) == 0 {
		return "the files and units are the same"
	}
	out := "changed: "
	for i, name := range names {
		if i > 0 {
			out += ", "
		}
		if len(out)+len(name) > maxChanges {
			return out + fmt.Sprintf("and %d more", len(names)-i)
		}
		out += name
	}
	return out
}

// changedParts names what differs between two stages, in their order, what is gone last.
func changedParts(before, after osm.OSCConfig) []string {
	type part struct {
		name  string
		value any
	}
	parts := func(c osm.OSCConfig) (out []part) {
		for _, f := range c.Files {
			out = append(out, part{f.Path, f})
		}
		for _, u := range c.Units {
			out = append(out, part{"unit " + u.Name, u})
		}
		if len(c.UserSSHKeys) > 0 {
			out = append(out, part{"SSH keys", c.UserSSHKeys})
		}
		if m := c.CloudInitModules; m != nil {
			v := reflect.ValueOf(*m)
			for i := range v.NumField() {
				if !v.Field(i).IsZero() {
					name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
					out = append(out, part{"module " + name, v.Field(i).Interface()})
				}
			}
		}
		return out
	}
	// Of a path that is listed twice the last counts.
	was, is := map[string]any{}, map[string]any{}
	old, now := parts(before), parts(after)
	for _, p := range old {
		was[p.name] = p.value
	}
	for _, p := range now {
		is[p.name] = p.value
	}
	var out []string
	told := map[string]bool{}
	tell := func(mark, name string) {
		if !told[name] {
			told[name] = true
			out = append(out, mark+redact.Clean(name))
		}
	}
	for _, p := range now {
		if value, ok := was[p.name]; !ok {
			tell("+", p.name)
		} else if !reflect.DeepEqual(value, is[p.name]) {
			tell("", p.name)
		}
	}
	for _, p := range old {
		if _, ok := is[p.name]; !ok {
			tell("-", p.name)
		}
	}
	return out
}
