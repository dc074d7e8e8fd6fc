package api_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// minimal is the least that makes an OperatingSystemProfile.
const minimal = `
apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: v1.9.0
  supportedCloudProviders: [{name: aws}]
  bootstrapConfig:
    files:
    - {path: /etc/a, content: {inline: {data: one}}}
  provisioningConfig: {}
`

// TestProfileUpdate shows which profiles may change, and how. The name says it: one
// that ends in the object's version is ours and never changes.
func TestProfileUpdate(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	ns := c.Namespace(t)

	const file = "spec.bootstrapConfig.files.0.content.inline.data"
	type change map[string]any
	for name, tc := range map[string]struct {
		name, version string
		change        change
		refused       bool
	}{
		"an object named after its version: its content stays": {
			"osp-a-v1.9.0", "v1.9.0", change{file: "two"}, true},
		"an object named after its version: not even with another version": {
			"osp-b-v1.9.0", "v1.9.0", change{file: "two", "spec.version": "v1.9.1"}, true},
		"an object named after its version: the version alone neither": {
			"osp-c-v1.9.0", "v1.9.0", change{"spec.version": "v2.0.0"}, true},
		"an object named after its version: nor a file less": {
			"osp-d-v1.9.0", "v1.9.0", change{"spec.bootstrapConfig.files": nil}, true},
		"an object named after its version: nor a provider's free-form spec": {
			"osp-e-v1.9.0", "v1.9.0", change{"spec.supportedCloudProviders": []any{map[string]any{"name": "aws", "spec": map[string]any{"a": "b"}}}}, true},
		"an object named after its version: a default that is written out is no change": {
			"osp-f-v1.9.0", "v1.9.0", change{"spec.provisioningUtility": "cloud-init"}, false},
		"an object named after its version: labels and annotations may change": {
			"osp-g-v1.9.0", "v1.9.0", change{"metadata.labels": map[string]any{"a": "b"}, "metadata.annotations": map[string]any{"c": "d"}}, false},
		"upper case in the version is lower case in the name": {
			"osp-h-v1.9.0-rc.1", "v1.9.0-RC.1", change{file: "two", "spec.version": "v1.9.1"}, true},
		"build metadata's plus is a dash in the name": {
			"osp-i-v1.9.0-build.5", "v1.9.0+build.5", change{file: "two", "spec.version": "v1.9.1"}, true},
		"both, behind the digest that tells such names apart": {
			"osp-j-3f2a9c-v1.9.0-rc.1-build.5-x", "v1.9.0-RC.1+Build.5-x", change{file: "two", "spec.version": "v1.9.1"}, true},
		"a dirty directory's version as well": {
			"osp-k-v1.9.0-dirty.0a1b2c3d", "v1.9.0-dirty.0a1b2c3d", change{file: "two", "spec.version": "v1.9.1"}, true},

		"another object: a change without another version is refused": {
			"osp-ubuntu-a", "v1.9.0", change{file: "two"}, true},
		"another object: a change with another version is accepted": {
			"osp-ubuntu-b", "v1.9.0", change{file: "two", "spec.version": "v1.9.1"}, false},
		"another object: versions may go down": {
			"osp-ubuntu-c", "v1.9.0", change{file: "two", "spec.version": "v1.8.0"}, false},
		"another object: the version alone may change": {
			"osp-ubuntu-d", "v1.9.0", change{"spec.version": "v1.9.1"}, false},
		"another object: labels and annotations may change": {
			"osp-ubuntu-e", "v1.9.0", change{"metadata.labels": map[string]any{"a": "b"}}, false},
		"another object: nothing changed": {
			"osp-ubuntu-f", "v1.9.0", change{}, false},
		"the version in the middle of the name is no end": {
			"osp-v1.9.0-custom", "v1.9.0", change{file: "two", "spec.version": "v1.9.1"}, false},
		"the version without a dash before it is no end": {
			"ospv1.9.0", "v1.9.0", change{file: "two", "spec.version": "v1.9.1"}, false},
		"another version's name does not bind": {
			"osp-l-v1.8.0", "v1.9.0", change{file: "two", "spec.version": "v1.9.1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			osp := placed(parseObject(t, minimal), ns, tc.name)
			set(t, osp, "spec.version", tc.version)
			if err := cl.Create(t.Context(), osp); err != nil {
				t.Fatal(err)
			}
			before := osp.DeepCopy()
			for path, value := range tc.change {
				set(t, osp, path, value)
			}
			err := cl.Update(t.Context(), osp)
			if tc.refused {
				wantRefused(t, err, osp.GetName(), "immutable", "spec.version")
				// Server-side apply with force does not circumvent it. (An apply that only omits a
				// field changes nothing and is accepted.)
				osp.SetManagedFields(nil)
				osp.SetResourceVersion("")
				err = cl.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(osp), client.FieldOwner("somebody"), client.ForceOwnership)
				if err != nil {
					wantRefused(t, err, "immutable")
				}
				if err := cl.Get(t.Context(), client.ObjectKeyFromObject(osp), osp); err != nil {
					t.Fatal(err)
				}
				for _, difference := range differences("spec", before.Object["spec"], osp.Object["spec"], nil) {
					t.Error(difference)
				}
				return
			}
			if err != nil {
				t.Errorf("it was refused: %v", err)
			}
		})
	}
}

// TestProfileCreate shows the rules for a profile, apart from its templates.
func TestProfileCreate(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	ns := c.Namespace(t)

	file := func(keys map[string]any) []any { return []any{keys} }
	inline := map[string]any{"inline": map[string]any{"data": ""}}
	for name, tc := range map[string]struct {
		path  string
		value any
		word  string // of the message; none: accepted
	}{
		"the least":                           {"spec.osVersion", "24.04", ""},
		"no osName":                           {"spec.osName", nil, "spec.osName"},
		"no osVersion":                        {"spec.osVersion", nil, "spec.osVersion"},
		"no version":                          {"spec.version", nil, "spec.version"},
		"no supportedCloudProviders":          {"spec.supportedCloudProviders", nil, "spec.supportedCloudProviders"},
		"no bootstrapConfig":                  {"spec.bootstrapConfig", nil, "spec.bootstrapConfig"},
		"no provisioningConfig":               {"spec.provisioningConfig", nil, "spec.provisioningConfig"},
		"no spec":                             {"spec", nil, "spec"},
		"no providers":                        {"spec.supportedCloudProviders", []any{}, ""},
		"an unknown operating system":         {"spec.osName", "centos", "spec.osName"},
		"an unknown provider":                 {"spec.supportedCloudProviders", []any{map[string]any{"name": "vultr"}}, "spec.supportedCloudProviders[0].name"},
		"an unknown utility":                  {"spec.provisioningUtility", "kickstart", "spec.provisioningUtility"},
		"an unknown runtime":                  {"spec.bootstrapConfig.supportedContainerRuntimes", []any{map[string]any{"name": "crio", "files": []any{}}}, "spec.bootstrapConfig.supportedContainerRuntimes[0].name"},
		"a runtime without files":             {"spec.bootstrapConfig.supportedContainerRuntimes", []any{map[string]any{"name": "containerd"}}, "spec.bootstrapConfig.supportedContainerRuntimes[0].files"},
		"a runtime with an empty list":        {"spec.bootstrapConfig.supportedContainerRuntimes", []any{map[string]any{"name": "docker", "files": []any{}}}, ""},
		"a file without a path":               {"spec.bootstrapConfig.files", file(map[string]any{"content": inline}), "spec.bootstrapConfig.files[0].path"},
		"a file without content":              {"spec.bootstrapConfig.files", file(map[string]any{"path": "/a"}), "spec.bootstrapConfig.files[0].content"},
		"a file without inline content":       {"spec.bootstrapConfig.files", file(map[string]any{"path": "/a", "content": map[string]any{}}), ""},
		"inline content without data":         {"spec.bootstrapConfig.files", file(map[string]any{"path": "/a", "content": map[string]any{"inline": map[string]any{}}}), "spec.bootstrapConfig.files[0].content.inline.data"},
		"permissions that are text":           {"spec.bootstrapConfig.files", file(map[string]any{"path": "/a", "permissions": "0644", "content": inline}), "spec.bootstrapConfig.files[0].permissions"},
		"a unit without a name":               {"spec.bootstrapConfig.units", file(map[string]any{"enable": true}), "spec.bootstrapConfig.units[0].name"},
		"a drop-in without content":           {"spec.bootstrapConfig.units", file(map[string]any{"name": "a", "dropIns": []any{map[string]any{"name": "b"}}}), "spec.bootstrapConfig.units[0].dropIns[0].content"},
		"a command that is no text":           {"spec.bootstrapConfig.modules", map[string]any{"runcmd": []any{[]any{"echo"}}}, "spec.bootstrapConfig.modules.runcmd[0]"},
		"a version with a pre-release":        {"spec.version", "v1.0.0-rc.1", ""},
		"a version with build metadata":       {"spec.version", "v1.0.0-rc.1+Build.5", ""},
		"a version with text before it":       {"spec.version", "ours-v1.0.0", ""}, // as it has always been
		"a version without its v":             {"spec.version", "1.0.0", "spec.version"},
		"a version of two numbers":            {"spec.version", "v1.0", "spec.version"},
		"a version with a leading zero":       {"spec.version", "v01.0.0", "spec.version"},
		"a pre-release with a leading zero":   {"spec.version", "v1.0.0-01", "spec.version"},
		"a version with text after it":        {"spec.version", "v1.0.0 beta", "spec.version"},
		"a version with a line break":         {"spec.version", "v1.0.0\n", "spec.version"},
		"an empty version":                    {"spec.version", "", "spec.version"},
		"units outside Flatcar, which run":    {"spec.bootstrapConfig.units", []any{map[string]any{"name": "a.service"}}, ""},
		"a provider's spec that is no object": {"spec.supportedCloudProviders", []any{map[string]any{"name": "aws", "spec": "text"}}, "spec.supportedCloudProviders[0].spec"},
	} {
		t.Run(name, func(t *testing.T) {
			osp := placed(parseObject(t, minimal), ns, objectName(name))
			set(t, osp, tc.path, tc.value)
			err := cl.Create(t.Context(), osp)
			if tc.word != "" {
				wantRefused(t, err, tc.word)
			} else if err != nil {
				t.Errorf("it was refused: %v", err)
			}
		})
	}
}

// TestEnumerations writes every value that operating-system-manager accepts.
func TestEnumerations(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	ns := c.Namespace(t)
	for path, values := range map[string]string{
		"spec.osName":                                            "flatcar rhel ubuntu amzn2 rockylinux",
		"spec.provisioningUtility":                               "cloud-init ignition",
		"spec.supportedCloudProviders.0.name":                    "aws azure digitalocean edge gce hetzner kubevirt linode nutanix openstack vsphere fake alibaba anexia scaleway baremetal external vmware-cloud-director opennebula",
		"spec.bootstrapConfig.supportedContainerRuntimes.0.name": "docker containerd",
	} {
		for _, value := range strings.Fields(values) {
			t.Run(path+"="+value, func(t *testing.T) {
				osp := placed(parseObject(t, minimal), ns, objectName(path+value))
				set(t, osp, "spec.bootstrapConfig.supportedContainerRuntimes", []any{map[string]any{"name": "containerd", "files": []any{}}})
				set(t, osp, path, value)
				if err := cl.Create(t.Context(), osp); err != nil {
					t.Errorf("it was refused: %v", err)
				}
			})
		}
	}
}

// TestDefaults shows what the API server adds, in every place where files are.
func TestDefaults(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	ns := c.Namespace(t)
	osp := placed(parseObject(t, `
apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: v1.9.0
  supportedCloudProviders: []
  bootstrapConfig: &stage
    files: [{path: /a, content: {}}, {path: /b, permissions: 0, content: {}}, {path: /c, permissions: null, content: {}}]
    supportedContainerRuntimes: [{name: containerd, files: [{path: /d, content: {}}]}]
  provisioningConfig: *stage
`), ns, "defaults")
	if err := cl.Create(t.Context(), osp); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"provisioningUtility":                                              "cloud-init",
		"bootstrapConfig.files.0.permissions":                              int64(644),
		"bootstrapConfig.files.1.permissions":                              int64(0), // written explicitly, so stored
		"bootstrapConfig.files.2.permissions":                              int64(644),
		"bootstrapConfig.supportedContainerRuntimes.0.files.0.permissions": int64(644),
		"provisioningConfig.files.0.permissions":                           int64(644),
	} {
		keys := strings.Split("spec."+path, ".")
		var at any = osp.Object
		for _, key := range keys {
			at = child(t, at, key, path)
		}
		if at != want {
			t.Errorf("%s is %v, want %v", path, at, want)
		}
	}
}

// TestConfigUpdate shows that a configuration is what was rendered, for ever, while
// its metadata follows the world.
func TestConfigUpdate(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	ns := c.Namespace(t)
	create := func(t *testing.T, name string) *unstructured.Unstructured {
		t.Helper()
		osc := placed(readObject(t, "testdata/config.yaml"), ns, objectName(name))
		if err := cl.Create(t.Context(), osc); err != nil {
			t.Fatal(err)
		}
		return osc
	}
	for name, tc := range map[string]struct {
		path  string
		value any
	}{
		"a file's content stays":              {"spec.bootstrapConfig.files.0.content.inline.data", "other"},
		"a file's permissions stay":           {"spec.provisioningConfig.files.0.permissions", int64(600)},
		"the provider's free-form spec stays": {"spec.cloudProvider.spec", map[string]any{}},
		"a stage stays":                       {"spec.bootstrapConfig", map[string]any{}},
		"the operating system stays":          {"spec.osName", "ubuntu"},
	} {
		t.Run(name, func(t *testing.T) {
			osc := create(t, name)
			set(t, osc, tc.path, tc.value)
			wantRefused(t, cl.Update(t.Context(), osc), osc.GetName(), "immutable", "spec")
		})
	}
	t.Run("the spec cannot be taken away", func(t *testing.T) {
		osc := create(t, "no spec")
		set(t, osc, "spec", nil)
		wantRefused(t, cl.Update(t.Context(), osc), "spec")
	})
	t.Run("metadata may change", func(t *testing.T) {
		osc := create(t, "metadata")
		osc.SetAnnotations(map[string]string{"a": "b"})
		osc.SetFinalizers([]string{"example.com/keep"})
		if err := cl.Update(t.Context(), osc); err != nil {
			t.Errorf("it was refused: %v", err)
		}
		osc.SetFinalizers(nil)
		if err := cl.Update(t.Context(), osc); err != nil {
			t.Errorf("it was refused: %v", err)
		}
	})
	t.Run("it has no status", func(t *testing.T) {
		osc := create(t, "no status")
		status := map[string]any{"observedGeneration": int64(1)} // as earlier releases wrote it
		set(t, osc, "status", status)
		if err := cl.Update(t.Context(), osc); err != nil {
			t.Error(err)
		}
		if _, ok := osc.Object["status"]; ok {
			t.Error("a status was written")
		}
		set(t, osc, "status", status)
		if err := cl.Status().Update(t.Context(), osc); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want not found", err)
		}
	})
	t.Run("a profile has no status subresource", func(t *testing.T) {
		osp := placed(parseObject(t, minimal), ns, "no-status")
		if err := cl.Create(t.Context(), osp); err != nil {
			t.Fatal(err)
		}
		if err := cl.Status().Update(t.Context(), osp); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want not found", err)
		}
	})
}
