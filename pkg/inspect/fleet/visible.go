package fleet

import (
	"slices"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// Namespaces returns the namespaces of all pools that objects refer to.
func (f *Model) Namespaces() []string {
	var out []string
	o := f.objects
	for i := range o.Pools {
		out = append(out, o.Pools[i].Namespace)
	}
	for i := range o.Configs {
		out = append(out, NamespaceOf(o.Configs[i].Annotations[api.AnnotationPool]))
	}
	for i := range o.Records {
		out = append(out, NamespaceOf(o.Records[i].Annotations[api.AnnotationPool]))
	}
	for i := range o.Nodes {
		out = append(out, NamespaceOf(o.Nodes[i].Pool))
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(ns string) bool { return ns == "" })
}

// NamespaceOf returns the namespace of a pool, "namespace/name".
func NamespaceOf(pool string) string {
	namespace, _, _ := strings.Cut(pool, "/")
	return namespace
}

// filterVisible returns the objects that a viewer of some namespaces sees: pools, configurations,
// records and nodes in these, the profiles of such pools, and the parts of sources that
// concern these profiles. Messages and counts of a source can concern other pools and are
// omitted.
func (o Objects) filterVisible(sees func(namespace string) bool) Objects {
	out := Objects{ReadErrors: o.ReadErrors}
	profiles := map[string]bool{}
	for _, md := range o.Pools {
		if sees(md.Namespace) {
			out.Pools, profiles[md.Annotations[api.AnnotationOSP]] = append(out.Pools, md), true
		}
	}
	for _, osc := range o.Configs {
		if sees(NamespaceOf(osc.Annotations[api.AnnotationPool])) {
			out.Configs, profiles[osc.Annotations[api.AnnotationProfile]] = append(out.Configs, osc), true
		}
	}
	for _, record := range o.Records {
		if sees(NamespaceOf(record.Annotations[api.AnnotationPool])) {
			out.Records, profiles[record.Annotations[api.AnnotationProfile]] = append(out.Records, record), true
		}
	}
	for _, node := range o.Nodes {
		if sees(NamespaceOf(node.Pool)) {
			out.Nodes, profiles[node.Profile] = append(out.Nodes, node), true
		}
	}
	for _, m := range o.Failing {
		if sees(NamespaceOf(m.Pool)) {
			out.Failing = append(out.Failing, m)
		}
	}
	delete(profiles, "")
	for _, osp := range o.Profiles {
		if profiles[osp.Annotations[api.AnnotationProfile]] || profiles[osp.Labels[api.LabelProfile]] {
			out.Profiles = append(out.Profiles, osp)
		}
	}
	for i := range o.Sources {
		if ps, ok := filterSource(&o.Sources[i], profiles); ok {
			out.Sources = append(out.Sources, ps)
		}
	}
	return out
}

// filterSource returns the parts of a source that concern some profiles; false if there are
// none.
func filterSource(source *api.ProfileSource, profiles map[string]bool) (api.ProfileSource, bool) {
	ps := source.DeepCopy()
	ps.Status.Profiles = slices.DeleteFunc(ps.Status.Profiles, func(e api.ProfileEntry) bool { return !profiles[e.Name] })
	ps.Status.Rollouts = slices.DeleteFunc(ps.Status.Rollouts, func(r api.RolloutStatus) bool { return !profiles[r.Profile] })
	for i := range ps.Status.Rollouts {
		r := &ps.Status.Rollouts[i]
		r.Message = ""
		r.Pools = api.RolloutPools{}
		r.Machines = api.RolloutMachines{}
		r.Failures = nil
	}
	ps.Status.LastAttemptedRevision, ps.Status.HeldRevision = "", "" // files of other profiles can be rejected
	for i := range ps.Status.Conditions {
		ps.Status.Conditions[i].Message = ""
	}
	return *ps, len(ps.Status.Profiles) > 0
}
