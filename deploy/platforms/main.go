// Command platforms writes the manifests for KubeOne and KKP from those of deploy/. It is run by
// make generate.
//
// A folder in the addons path of KubeOne replaces the embedded addon of the same name. KubeOne
// executes its files as Go templates, in the order of their names, labels the objects, and applies
// them with one "kubectl apply --prune":
// https://github.com/kubermatic/kubeone/tree/main/pkg/addons (manifest.go, applier.go, ensure.go)
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const usage = "usage: go run ./deploy/platforms FOLDER, which is deploy"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	files, err := manifests(os.Args[1])
	for name, text := range files {
		err = errors.Join(err, write(filepath.Join(os.Args[1], name), text))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "platforms:", err)
		os.Exit(1)
	}
}

// write does not touch a file that has the right content, because another process can be reading it.
func write(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) { //nolint:gosec // the caller names it
		return nil
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // all users can read it
}

const (
	addon  = "kubeone/operating-system-manager/"
	header = "# Written by hack/generate (deploy/platforms) from the manifests of deploy/.\n"
)

// manifests returns the files of KubeOne and KKP by their path below the folder.
func manifests(dir string) (map[string][]byte, error) {
	crds, err := joined(dir, "crds/gitops.k8c.io_bootreports.yaml", "crds/gitops.k8c.io_nodeprovenances.yaml", "crds/gitops.k8c.io_profilesources.yaml",
		"crds/operatingsystemmanager.k8c.io_operatingsystemconfigs.yaml", "crds/operatingsystemmanager.k8c.io_operatingsystemprofiles.yaml")
	if err != nil {
		return nil, err
	}
	// The numbers set the order: what the API server needs to admit MachineDeployments is replaced
	// before the Pods of operating-system-manager are.
	out := map[string][]byte{addon + "10-crds.yaml": crds}
	for name, from := range map[string]string{
		"20-cloud-init-settings": "cloud-init-settings.yaml", "30-rbac": "rbac.yaml", "40-controller-policy": "controller-policy.yaml", "41-admission": "admission.yaml",
	} {
		if out[addon+name+".yaml"], err = joined(dir, from); err != nil {
			return nil, err
		}
	}
	for name, text := range out {
		if bytes.Contains(text, []byte("{{")) {
			return nil, fmt.Errorf("%s contains {{, which KubeOne would execute: escape it", name)
		}
	}
	if out[addon+"50-webhook.yaml"], err = kubeOneWebhook(dir); err != nil {
		return nil, err
	}
	if out[addon+"60-controller.yaml"], err = kubeOneController(dir); err != nil {
		return nil, err
	}
	if out["kkp/user-cluster.yaml"], err = kkpRights(dir); err != nil {
		return nil, err
	}
	return out, nil
}

// joined returns the documents of files, with their comments.
func joined(dir string, names ...string) ([]byte, error) {
	out := []byte(header)
	for i, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if i > 0 && !bytes.HasPrefix(text, []byte("---\n")) {
			out = append(out, "---\n"...)
		}
		out = append(out, text...)
	}
	return out, nil
}

// kkpUser is the user of the kubeconfig that KKP gives to operating-system-manager
// (OperatingSystemManagerCertUsername in KKP's pkg/resources/resources.go).
const kkpUser = "operating-system-manager"

// kkpRights returns what a user cluster lacks: our kinds, and the permissions and policies of the
// ServiceAccount for KKP's user.
func kkpRights(dir string) ([]byte, error) {
	text, err := joined(dir, "crds/gitops.k8c.io_bootreports.yaml", "crds/gitops.k8c.io_nodeprovenances.yaml", "crds/gitops.k8c.io_profilesources.yaml", "cloud-init-settings.yaml", "rbac.yaml", "controller-policy.yaml", "admission.yaml")
	if err != nil {
		return nil, err
	}
	out := string(text)
	for _, r := range []struct {
		from, to string
		times    int
	}{
		{"apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: osm-gitops\n  namespace: kube-system\n---\n", "", 1},
		{"- kind: ServiceAccount\n  name: osm-gitops\n  namespace: kube-system\n", "- kind: User\n  apiGroup: rbac.authorization.k8s.io\n  name: " + kkpUser + "\n", 5},
		{"system:serviceaccount:kube-system:osm-gitops", kkpUser, 2},
		// operating-system-manager has the same user, before the image is replaced and on the way back.
		{"  - name: settings # the namespace that nodes fetch from\n", "" +
			"  # operating-system-manager has this user as well. It names no field manager, and may do what KKP\n" +
			"  # permits it: write its own profiles and whole MachineDeployments.\n" +
			"  - name: ours\n" +
			"    expression: request.operation == 'DELETE' || request.options.?fieldManager.orValue('') == 'osm-gitops'\n" +
			"  - name: settings # the namespace that nodes fetch from\n", 1},
		// Without a name, the time of this request is that of the entry that owns the end: the API server
		// takes a changed field from all others.
		{"m.manager == request.options.fieldManager &&\n", "m.?fieldsV1[?'f:data'][?'f:expiration'].hasValue() &&\n", 1},
		{"variables.what != 'operatingsystemprofiles' ||\n", "variables.what != 'operatingsystemprofiles' || !variables.ours ||\n", 1},
		{"variables.what != 'machinedeployments' ||\n", "variables.what != 'machinedeployments' || !variables.ours ||\n", 1},
	} {
		if n := strings.Count(out, r.from); n != r.times {
			return nil, fmt.Errorf("the manifests contain %q %d times, expected %d: adapt deploy/platforms", r.from, n, r.times)
		}
		out = strings.ReplaceAll(out, r.from, r.to)
	}
	return []byte(out), nil
}

// object is a manifest.
type object = map[string]any

const (
	namespace = "kube-system"
	// servingCert is the Secret that KubeOne's own addon has, too.
	servingCert = "operating-system-manager-webhook-serving-cert"
)

// names are those of the Deployments, and values of the label app, by which KubeOne waits for
// their Pods.
var names = []string{"operating-system-manager", "operating-system-manager-webhook"}

// kubeOneWebhook returns the webhooks under the names, behind the Service and with the
// certificates that KubeOne's addon uses: Pods of both programs can answer while one replaces
// the other.
func kubeOneWebhook(dir string) ([]byte, error) {
	found, err := read(dir, "webhook.yaml")
	if err != nil {
		return nil, err
	}
	secret := object{
		"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": servingCert, "namespace": namespace},
		"data": object{"tls.crt": "{{ .Certificates.OSMWebhookCert | b64enc }}", "tls.key": "{{ .Certificates.OSMWebhookKey | b64enc }}"},
	}
	out := append(webhookIdentity(), secret)
	for _, o := range found {
		switch o.GetKind() {
		case "Service":
			o.SetName(names[1])
			o.Object["spec"].(object)["selector"] = object{"app": names[1]}
		case "MutatingWebhookConfiguration":
			o.SetName("operating-system-manager.kubermatic.io")
		case "ValidatingWebhookConfiguration":
			o.SetName("operatingsystemmanager.k8c.io")
		default:
			continue // --cert-dir needs no permission to write caBundle
		}
		webhooks, _ := o.Object["webhooks"].([]any)
		for _, w := range webhooks {
			config := w.(object)["clientConfig"].(object)
			config["service"].(object)["name"] = names[1]
			config["caBundle"] = "{{ .Certificates.KubernetesCA | b64enc }}"
		}
		out = append(out, o.Object)
	}
	return encode(out)
}

// webhookAccount is the ServiceAccount of the Pods that serve admission.
const webhookAccount = "osm-gitops-webhook"

// webhookIdentity returns that account, and the permissions to read what decides whether a pool can
// have its profile. These Pods write nothing.
func webhookIdentity() []object {
	meta := func() object { return object{"name": webhookAccount, "namespace": namespace} }
	const group = "rbac.authorization.k8s.io"
	return []object{
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta()},
		{"apiVersion": group + "/v1", "kind": "Role", "metadata": meta(), "rules": []any{
			object{"apiGroups": []any{"gitops.k8c.io"}, "resources": []any{"profilesources"}, "verbs": []any{"list"}},
			object{"apiGroups": []any{"operatingsystemmanager.k8c.io"}, "resources": []any{"operatingsystemprofiles"}, "verbs": []any{"get", "list"}},
			object{"apiGroups": []any{"operatingsystemmanager.k8c.io"}, "resources": []any{"operatingsystemconfigs"}, "verbs": []any{"get"}},
		}},
		{
			"apiVersion": group + "/v1", "kind": "RoleBinding", "metadata": meta(),
			"roleRef":  object{"apiGroup": group, "kind": "Role", "name": webhookAccount},
			"subjects": []any{object{"kind": "ServiceAccount", "name": webhookAccount, "namespace": namespace}},
		},
	}
}

// flags are the arguments that KubeOne gives operating-system-manager. The fields and functions
// are those that its own addon uses.
var flags = []any{
	`--cluster-dns={{ if .Params.clusterDNS }}{{ .Params.clusterDNS }}{{ else if .Config.Features.NodeLocalDNS.Deploy }}{{ .Resources.NodeLocalDNSVirtualIP }}{{ else }}{{ fail "addon operating-system-manager: without NodeLocalDNS set params.clusterDNS, to what the present Deployment has in -cluster-dns" }}{{ end }}`,
	`--pause-image={{ .InternalImages.Get "PauseImage" }}`,
	`--external-cloud-provider={{ .Config.CloudProvider.External }}`,
	`--node-insecure-registries={{ .Config.RegistryConfiguration.InsecureRegistryAddress }}`,
	`--node-http-proxy={{ .Config.Proxy.HTTP }}`,
	`--node-no-proxy={{ .Config.Proxy.NoProxy | default ".svc,.cluster.local,localhost,127.0.0.1" }}`,
	`--device-ownership-from-security-context={{ .Config.OperatingSystemManager.EnableNonRootDeviceOwnership }}`,
	runtimeFlags,
}

// runtimeFlags stands for a list, which a scalar cannot express: the template is in comments, so
// that the file is YAML also before it is executed.
const runtimeFlags = "RUNTIME-FLAGS"

var runtimeFlagsLine = regexp.MustCompile("(?m)^( *)- " + runtimeFlags + "$")

const runtimeFlagsTemplate = "$1# {{ range .Config.ContainerRuntime.MachineControllerFlags }}\n$1- '{{ . }}'\n$1# {{ end }}"

// kubeOneController returns the two Deployments that KubeOne waits for, and what belongs to them.
func kubeOneController(dir string) ([]byte, error) {
	found, err := read(dir, "controller.yaml")
	if err != nil {
		return nil, err
	}
	var out []object
	for _, o := range found {
		switch o.GetKind() {
		case "Deployment":
			for _, name := range names {
				out = append(out, deployment(o.DeepCopy(), name))
			}
		case "PodDisruptionBudget":
			// An eviction fails if two of them select a Pod, and KubeOne's are not pruned.
			for _, name := range names {
				budget := o.DeepCopy()
				budget.SetName(name)
				budget.Object["spec"].(object)["selector"] = object{"matchLabels": object{"app": name}}
				out = append(out, budget.Object)
			}
		default:
			out = append(out, o.Object)
		}
	}
	text, err := encode(out)
	if err == nil && len(runtimeFlagsLine.FindAll(text, -1)) != 1 {
		return nil, errors.New("expected one place for the flags of the container runtime")
	}
	return runtimeFlagsLine.ReplaceAll(text, []byte(runtimeFlagsTemplate)), err
}

// deployment returns one that replaces the Deployment of KubeOne with this name in place: the
// selector, which is immutable, is the same.
func deployment(o *unstructured.Unstructured, name string) object {
	serves := name == names[1]
	o.SetName(name)
	o.SetLabels(map[string]string{"app": name, "app.kubernetes.io/name": "osm-gitops"})
	spec := o.Object["spec"].(object)
	spec["replicas"] = int64(1)
	delete(spec, "strategy")
	if !serves {
		// operating-system-manager ends before osm-gitops begins. The webhooks are always served.
		spec["strategy"] = object{"type": "Recreate"}
	}
	spec["selector"] = object{"matchLabels": object{"app": name}}
	template := spec["template"].(object)
	template["metadata"].(object)["labels"] = object{"app": name, "app.kubernetes.io/name": "osm-gitops"}
	pod := template["spec"].(object)
	pod["nodeSelector"] = object{"node-role.kubernetes.io/control-plane": ""}
	pod["tolerations"] = []any{
		object{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
		object{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
		object{"key": "CriticalAddonsOnly", "operator": "Exists"},
	}
	container := pod["containers"].([]any)[0].(object)
	container["image"] = `{{ required "addon operating-system-manager: set params.image" .Params.image }}`
	if serves {
		pod["serviceAccountName"] = webhookAccount
		container["command"] = []any{"/usr/local/bin/webhook"}
		container["args"] = []any{"--namespace=$(POD_NAMESPACE)", "--cert-dir=/etc/osm-gitops/webhook", "--metrics-bind-address=:8080", "--health-probe-bind-address=:8085"}
		container["volumeMounts"] = []any{object{"name": "serving-cert", "mountPath": "/etc/osm-gitops/webhook", "readOnly": true}}
		pod["volumes"] = []any{object{"name": "serving-cert", "secret": object{"secretName": servingCert}}}
		return o.Object
	}
	annotations, _ := template["metadata"].(object)["annotations"].(object)
	// As in KubeOne's addon, for a Prometheus that finds Pods by them.
	maps.Copy(annotations, object{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "prometheus.io/path": "/metrics"})
	container["args"] = append(append(container["args"].([]any), "--webhook-address=0"), flags...)
	container["env"] = append(container["env"].([]any),
		object{"name": "HTTPS_PROXY", "value": "{{ .Config.Proxy.HTTPS }}"}, object{"name": "NO_PROXY", "value": "{{ .Config.Proxy.NoProxy }}"})
	return o.Object
}

// read returns the objects of a file.
func read(dir, name string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4<<10) // bytes that are read to distinguish YAML from JSON
	for {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}

// encode returns objects as documents. It breaks no lines, which could be in a template.
func encode(objects []object) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(header)
	e := yamlv3.NewEncoder(&b)
	e.SetIndent(2)
	for _, o := range objects {
		if err := e.Encode(o); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), e.Close()
}
