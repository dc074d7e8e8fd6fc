package platforms

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// Addon is the name of KubeOne's addon: of its folder, and the value of the label that its objects
// get.
const Addon = "operating-system-manager"

// AddonLabel selects the objects that KubeOne prunes.
const AddonLabel = "kubeone.io/addon"

// Data has the fields and methods of KubeOne's data that our addon uses:
// https://github.com/kubermatic/kubeone/blob/main/pkg/addons/applier.go
type Data struct {
	Config         Config
	InternalImages Images
	Certificates   map[string]string
	Resources      map[string]string
	Params         map[string]string
}

// Config is a part of a KubeOneCluster.
type Config struct {
	CloudProvider         struct{ External bool }
	Proxy                 struct{ HTTP, HTTPS, NoProxy string }
	RegistryConfiguration *Registry
	ContainerRuntime      ContainerRuntime
	Features              struct{ NodeLocalDNS *NodeLocalDNS }

	OperatingSystemManager struct{ EnableNonRootDeviceOwnership bool }
}

// NodeLocalDNS is a feature of KubeOne.
type NodeLocalDNS struct{ Deploy bool }

// Images are those of a release of KubeOne.
type Images struct{}

// Get returns an image by KubeOne's name for it.
func (Images) Get(name string) (string, error) {
	images := map[string]string{"PauseImage": "registry.k8s.io/pause:3.10"}
	if images[name] == "" {
		return "", fmt.Errorf("KubeOne has no image %q", name)
	}
	return images[name], nil
}

// Registry is the address of an insecure registry.
type Registry struct{ Insecure string }

// InsecureRegistryAddress works for nil, as KubeOne's.
func (r *Registry) InsecureRegistryAddress() string {
	if r == nil {
		return ""
	}
	return r.Insecure
}

// ContainerRuntime are flags of machine-controller and operating-system-manager.
type ContainerRuntime struct{ Flags []string }

// MachineControllerFlags returns them.
func (c ContainerRuntime) MachineControllerFlags() []string { return c.Flags }

// Execute returns the objects of our addon as KubeOne makes them of its folder.
func Execute(d Data) ([]*unstructured.Unstructured, error) {
	folder, err := Path("..", "..", "deploy", "kubeone", Addon)
	if err != nil {
		return nil, err
	}
	return ExecuteFolder(folder, d)
}

// ExecuteFolder returns the objects of an addon's folder: the files, in the order of their names, are
// templates, and each object gets a label.
func ExecuteFolder(folder string, d Data) ([]*unstructured.Unstructured, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	funcs := sprig.TxtFuncMap()
	funcs["required"] = func(warn string, input any) (any, error) {
		if input == nil || input == "" {
			return input, errors.New(warn)
		}
		return input, nil
	}
	var out []*unstructured.Unstructured
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			return nil, err
		}
		parsed, err := template.New(file.Name()).Funcs(funcs).Parse(string(text))
		if err != nil {
			return nil, err
		}
		var executed bytes.Buffer
		if err := parsed.Execute(&executed, d); err != nil {
			return nil, err
		}
		objects, err := decode(executed.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		out = append(out, objects...)
	}
	return Labeled(out), nil
}

// Embedded returns the objects of KubeOne's own addon.
func Embedded() ([]*unstructured.Unstructured, error) {
	out, err := CRDs()
	if err != nil {
		return nil, err
	}
	for _, elements := range [][]string{
		{"deploy", "cloud-init-settings.yaml"}, // the namespace and the identity that nodes fetch with
		{"test", "platforms", "kubeone", "rbac.yaml"}, {"test", "platforms", "kubeone", "deployments.yaml"}, {"test", "platforms", "kubeone", "webhooks.yaml"},
	} {
		objects, err := Read(elements...)
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
	}
	for _, name := range []string{"operating-system-manager", "operating-system-manager-webhook"} {
		budget := policyv1.PodDisruptionBudget{
			TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
		}
		o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&budget)
		if err != nil {
			return nil, err
		}
		delete(o, "status")
		out = append(out, &unstructured.Unstructured{Object: o})
	}
	return Labeled(out), nil
}

// Apply does with the objects of an addon, which are labeled, what KubeOne does.
func Apply(ctx context.Context, kubectl, kubeconfig string, objects []*unstructured.Unstructured) error {
	var in bytes.Buffer
	for _, o := range objects {
		text, err := sigsyaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		in.WriteString("---\n")
		in.Write(text)
	}
	// For each object kubectl would parse the API server's OpenAPI document of the group twice, to merge
	// with the strategies that it has compiled in as well; that was half of its CPU.
	cmd := exec.CommandContext(ctx, kubectl, "--kubeconfig", kubeconfig, "apply", "-f", "-", "--prune", "-l", AddonLabel+"="+Addon, "--openapi-patch=false")
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w\n%s", err, out)
	}
	return nil
}

// Labeled gives objects the label of the addon.
func Labeled(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, o := range objects {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[AddonLabel] = Addon
		o.SetLabels(labels)
	}
	return objects
}

// Read returns the objects of a file below the root of the repository.
func Read(elements ...string) ([]*unstructured.Unstructured, error) {
	path, err := Path(append([]string{"..", ".."}, elements...)...)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decode(text)
}

func decode(text []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4<<10) // bytes that are read to distinguish YAML from JSON
	for {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}
