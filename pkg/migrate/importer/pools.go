package importer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer/manifest"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// pool is a MachineDeployment, or the error of one.
type pool struct {
	object manifest.Object
	md     *cluster.MachineDeployment
	// inputs are the inputs of rendering, if they are valid.
	inputs *render.Pool
}

// readPool reads a MachineDeployment as the controller does. One without the annotation is
// not a pool.
func (a *importPlan) readPool(o manifest.Object) pool {
	p := pool{object: o, md: &cluster.MachineDeployment{}}
	raw, err := json.Marshal(o.Content)
	if err == nil {
		err = json.Unmarshal(raw, p.md)
	}
	if err != nil {
		a.addRejection(RenderRejection{Object: o.String(), Message: "is not a valid MachineDeployment: " + manifest.CutOff(err.Error())})
		return p
	}
	if p.profile() == "" {
		a.addNote(Note{Object: o.String(), Field: "metadata.annotations", Message: "has no annotation " + api.AnnotationOSP + ": it is not a pool, and osm-gitops ignores it"})
		return p
	}
	decoded, err := render.DecodePool(p.md)
	for _, problem := range render.Problems(err) {
		a.addRejection(rejectionOf(o, problem))
	}
	if err == nil {
		p.inputs = &decoded
	}
	return p
}

// profile returns the name of the pool's profile.
func (p pool) profile() string { return p.md.Annotations[api.AnnotationOSP] }

// profileNamespace returns the namespace of the pool's profile.
func (p pool) profileNamespace(standard string) string {
	if ns := p.md.Annotations[api.AnnotationOSPNamespace]; ns != "" {
		return ns
	}
	return standard
}

// poolsOf lists the pools that use a profile.
func (a *importPlan) poolsOf(o manifest.Object) []string {
	out := []string{}
	for _, p := range a.pools {
		if p.profile() == o.Name() && p.profileNamespace(a.in.Namespace) == o.Namespace() {
			out = append(out, p.md.Namespace+"/"+p.md.Name)
		}
	}
	return out
}

// writeAndCheckPools writes the pools, and checks that their profiles exist.
func (a *importPlan) writeAndCheckPools() {
	existing := map[string]bool{}
	for _, o := range a.profiles {
		existing[o.Namespace()+"/"+o.Name()] = true
		if o.ProfileSourceName() != "" { // pools name the profile, not the object of a version
			existing[o.Namespace()+"/"+manifest.Text(manifest.Mapping(o.Metadata()["labels"])[api.LabelProfile])] = true
		}
	}
	for _, d := range a.in.Builtin {
		existing[a.in.Namespace+"/"+d.Name] = true
	}
	for _, p := range a.pools {
		if p.profile() == "" {
			continue
		}
		if ns := p.profileNamespace(a.in.Namespace); !existing[ns+"/"+p.profile()] {
			a.addRejection(RenderRejection{Object: p.object.String(), Field: "metadata.annotations[" + api.AnnotationOSP + "]",
				Message: fmt.Sprintf("names profile %q, which is not among the profiles of namespace %s: import that profile as well, or name another", p.profile(), ns)})
		}
		if p.inputs == nil {
			continue
		}
		text, err := p.yamlForDiff()
		if err != nil {
			a.addNote(Note{Object: p.object.String(), Message: "not written to " + PoolsDir + ": " + manifest.CutOff(err.Error())})
			continue
		}
		a.plan.Files[PoolsDir+"/"+p.md.Namespace+"-"+p.md.Name+".yaml"] = text
	}
	a.addExamplePoolIfNone()
}

// addExamplePoolIfNone adds a MachineDeployment if the plan has none, so that CI can render for
// one.
func (a *importPlan) addExamplePoolIfNone() {
	for name := range a.plan.Files {
		if strings.HasPrefix(name, PoolsDir+"/") {
			return
		}
	}
	i := slices.IndexFunc(a.overlayBases, func(c *candidate) bool { return len(c.doc.Spec.SupportedCloudProviders) > 0 })
	if i < 0 {
		return
	}
	spec := a.overlayBases[i].doc.Spec
	provider := map[string]any{"cloudProvider": spec.SupportedCloudProviders[0].Name, "operatingSystem": spec.OSName}
	if spec.OSName == osm.OperatingSystemFlatcar {
		provider["operatingSystemSpec"] = map[string]any{"provisioningUtility": spec.ProvisioningUtility}
	}
	raw, err := json.Marshal(provider)
	if err != nil {
		return // strings can always be encoded
	}
	p := pool{object: manifest.Object{Content: map[string]any{"kind": "MachineDeployment", "metadata": map[string]any{"name": "example"}}}, md: &cluster.MachineDeployment{}}
	p.md.Name, p.md.Namespace = "example", a.in.Namespace
	p.md.Annotations = map[string]string{api.AnnotationOSP: a.overlayBases[i].doc.Name}
	kubelets := matrix.Kubelets()
	p.md.Spec.Template.Spec.Versions.Kubelet = kubelets[len(kubelets)-1]
	p.md.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: raw}
	if text, err := p.yamlForDiff(); err == nil {
		a.plan.Files[PoolsDir+"/example.yaml"] = text
		a.addNote(Note{Object: "MachineDeployments", Message: "none with a profile were given: " + PoolsDir + "/example.yaml replaces them for osm-gitops diff; to get them, run kubectl get osp,md -A"})
	}
}

// poolAnnotations are the annotations that determine what a pool gets, other than the
// kubelet's.
var poolAnnotations = []string{api.AnnotationOSP, api.AnnotationOSPNamespace, api.AnnotationVersionPin, api.AnnotationIgnitionVersion, api.AnnotationSuspend, api.AnnotationRollout}

// poolSystemFields are the fields of operatingSystemSpec without credentials.
var poolSystemFields = []string{"distUpgradeOnBoot", "disableAutoUpdate", "disableLocksmithD", "disableUpdateEngine", "provisioningUtility",
	"attachSubscription", "rhelUseSatelliteServer", "rhelSatelliteServer", "rhelOrganizationName"}

// yamlForDiff returns the pool as `osm-gitops diff` needs it: the inputs of rendering without
// credentials. It omits the machine parameters of the cloud, and with them the credentials
// for it, overwriteCloudConfig and the registration of RHEL.
func (p pool) yamlForDiff() ([]byte, error) {
	annotations := map[string]any{}
	for key, value := range p.md.Annotations {
		if slices.Contains(poolAnnotations, key) || strings.HasPrefix(key, api.AnnotationKubeletConfigPrefix) {
			annotations[key] = value
		}
	}
	spec := p.md.Spec.Template.Spec
	var provider map[string]any
	if err := json.Unmarshal(spec.ProviderSpec.Value.Raw, &provider); err != nil {
		return nil, fmt.Errorf("its provider spec: %w", err)
	}
	value := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(provider)) {
		switch strings.ToLower(key) { // encoding/json ignores the case of keys
		case "cloudprovider", "operatingsystem", "network", "sshpublickeys":
			value[key] = provider[key]
		case "operatingsystemspec":
			system := maps.Clone(manifest.Mapping(provider[key]))
			maps.DeleteFunc(system, func(k string, _ any) bool {
				return !slices.ContainsFunc(poolSystemFields, func(f string) bool { return strings.EqualFold(f, k) })
			})
			value[key] = system
		}
	}
	metadata := map[string]any{"name": p.md.Name, "namespace": p.md.Namespace, "annotations": annotations}
	if wave, ok := p.md.Labels[api.LabelWave]; ok {
		metadata["labels"] = map[string]any{api.LabelWave: wave}
	}
	b, err := yaml.Marshal(map[string]any{
		"apiVersion": cluster.GroupVersion.String(), "kind": "MachineDeployment", "metadata": metadata,
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"versions": map[string]any{"kubelet": spec.Versions.Kubelet}, "providerSpec": map[string]any{"value": value},
		}}},
	})
	if err != nil {
		return nil, err
	}
	return append([]byte("# What osm-gitops diff reads of "+p.object.String()+". It holds no credentials, and\n# is not for applying.\n"), b...), nil
}
