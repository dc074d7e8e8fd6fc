package profiles_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
)

const (
	kubeletConf = "/etc/kubernetes/kubelet.conf"
	kubeletUnit = unitDir + "kubelet.service"
)

// TestKubeletConf: the kubelet's own type takes every configuration without an
// unknown field, and it holds what the pool's annotations ask for, or the
// defaults of operating-system-manager's profiles.
func TestKubeletConf(t *testing.T) {
	var out report
	for _, r := range renderings(t) {
		var got kubeletconfig.KubeletConfiguration
		if err := yaml.UnmarshalStrict([]byte(r.node()[kubeletConf].content), &got); err != nil {
			out.add(kubeletConf+": "+err.Error(), r.name)
			continue
		}
		if got.APIVersion != "kubelet.config.k8s.io/v1beta1" || got.Kind != "KubeletConfiguration" {
			out.add(fmt.Sprintf("%s is %s %s", kubeletConf, got.APIVersion, got.Kind), r.name)
		}
		if r.shipped {
			for _, difference := range differences(wantKubelet(r), asMap(t, got)) {
				out.add(kubeletConf+": "+difference, r.name)
			}
		}
	}
	out.fail(t)
}

// differences are the keys under which two maps differ, a line each.
func differences[V any](want, got map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(want)), maps.Keys(got))
	slices.Sort(keys)
	var out []string
	for _, key := range slices.Compact(keys) {
		w, wanted := want[key]
		g, there := got[key]
		switch {
		case !there:
			out = append(out, fmt.Sprintf("%s is missing, want %v", key, w))
		case !wanted:
			out = append(out, fmt.Sprintf("%s is %v, want none", key, g))
		case !cmp.Equal(w, g):
			out = append(out, fmt.Sprintf("%s is %v, want %v", key, g, w))
		}
	}
	return out
}

// wantKubelet is the configuration of operating-system-manager's profiles for a combination.
func wantKubelet(r *rendering) map[string]any {
	list := func(items ...any) []any { return items }
	want := map[string]any{
		"authentication": map[string]any{"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true, "cacheTTL": "2m0s"},
			"x509": map[string]any{"clientCAFile": "/etc/kubernetes/pki/ca.crt"}},
		"authorization": map[string]any{"mode": "Webhook", "webhook": map[string]any{"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"}},
		"cgroupDriver":  "systemd", "clusterDNS": list("10.96.0.10"), "clusterDomain": "cluster.local",
		"containerLogMaxFiles": 5.0, "containerLogMaxSize": "100Mi",
		"evictionHard":          map[string]any{"imagefs.available": "15%", "memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
		"kubeReserved":          map[string]any{"cpu": "200m", "ephemeral-storage": "1Gi", "memory": "200Mi"},
		"systemReserved":        map[string]any{"cpu": "200m", "ephemeral-storage": "1Gi", "memory": "200Mi"},
		"maxParallelImagePulls": 10.0, "protectKernelDefaults": true, "readOnlyPort": 0.0, "rotateCertificates": true, "serializeImagePulls": false,
		"serverTLSBootstrap": true, "staticPodPath": "/etc/kubernetes/manifests", "volumePluginDir": "/var/lib/kubelet/volumeplugins",
		"tlsCipherSuites": list("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
			"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
			"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"),
	}
	switch r.profile.Spec.OSName {
	case osm.OperatingSystemUbuntu, osm.OperatingSystemFlatcar:
		want["resolvConf"] = "/run/systemd/resolve/resolv.conf"
	case osm.OperatingSystemAmazon2:
		// operating-system-manager lacks this: on cgroups of version 1, which Amazon Linux 2 has, a
		// kubelet of today ends with "configured to not run on a host using cgroup v1".
		want["failCgroupV1"] = false
	}
	if r.values[matrix.Gates] == "two" {
		want["featureGates"] = map[string]any{"RotateKubeletServerCertificate": true, "ImageVolume": false}
	}
	// As kubeletAnnotations has them.
	asked := map[string]any{
		"KubeReserved": map[string]any{"cpu": "300m", "memory": "350Mi"}, "SystemReserved": map[string]any{"cpu": "250m", "ephemeral-storage": "2Gi"},
		"EvictionHard": map[string]any{"memory.available": "250Mi", "nodefs.available": "12%"},
		"MaxPods":      222.0, "ContainerLogMaxSize": "64Mi", "ContainerLogMaxFiles": 7.0,
		"ImageGCHighThresholdPercent": 81.0, "ImageGCLowThresholdPercent": 71.0, "ImageMinimumGCAge": "7m0s", "ImageMaximumGCAge": "26h0m0s",
	}
	for name := range r.in.Pool.KubeletAnnotations {
		key := strings.ToLower(name[:1]) + name[1:]
		want[key] = asked[name]
	}
	return want
}

// asMap is a configuration as its JSON, without what the type adds by itself.
func asMap(t *testing.T, config kubeletconfig.KubeletConfiguration) map[string]any {
	t.Helper()
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	delete(out, "kind")
	delete(out, "apiVersion")
	out["readOnlyPort"] = float64(config.ReadOnlyPort) // left out by the type when it is the 0 that we write
	var empty map[string]any
	if b, err = json.Marshal(kubeletconfig.KubeletConfiguration{}); err == nil {
		err = json.Unmarshal(b, &empty)
	}
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range empty {
		if cmp.Equal(out[key], value) {
			delete(out, key)
		}
	}
	return out
}

// TestKubeletFlags: the kubelet is started with the flags of operating-system-manager's profiles and
// no other, and its labels are labels.
func TestKubeletFlags(t *testing.T) {
	var out report
	for _, r := range renderings(t) {
		got, err := flags(r.node()[kubeletUnit].content)
		if err != nil {
			out.add(kubeletUnit+": "+err.Error(), r.name)
			continue
		}
		for _, problem := range checkLabels(r, got["node-labels"]) {
			out.add(kubeletUnit+": --node-labels: "+problem, r.name)
		}
		delete(got, "node-labels")
		if r.shipped {
			for _, difference := range differences(wantFlags(r), got) {
				out.add(kubeletUnit+": "+difference, r.name)
			}
		}
	}
	out.fail(t)
}

// TestFlags: a command line over several lines is one.
func TestFlags(t *testing.T) {
	const unit = "[Service]\nExecStartPre=/opt/x --not=this\nExecStart=/opt/bin/kubelet \\\n  --a=b=c \\\n# a comment\n  --d e\\\n --f\nRestart=always\n"
	got, err := flags(unit)
	if diff := cmp.Diff(map[string]string{"a": "b=c", "d": "e", "f": ""}, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"[Service]\n", "[Service]\nExecStart=/opt/bin/kubelet a\n", "[Service]\nExecStart=/opt/bin/kubelet --a=b --a=c\n", "[Service]\nExecStart=/opt/bin/kubelt --a\n"} {
		if got, err := flags(bad); err == nil {
			t.Errorf("%q has the flags %v", bad, got)
		}
	}
}

// flags reads the kubelet's command line out of its unit as systemd does: a line
// that ends in a backslash goes on, and comments in between do not end it
// (systemd.syntax(7)).
func flags(content string) (map[string]string, error) {
	var command string
	joining := false
	for line := range strings.SplitSeq(content, "\n") {
		if joining && (strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";")) {
			continue
		}
		rest, starts := strings.CutPrefix(line, "ExecStart=")
		if !joining && !starts {
			continue
		}
		if starts && command != "" {
			return nil, fmt.Errorf("it has two lines ExecStart=")
		}
		rest, joining = strings.CutSuffix(rest, `\`)
		command += rest + " "
	}
	words := strings.Fields(command)
	if len(words) == 0 || path.Base(words[0]) != "kubelet" {
		return nil, fmt.Errorf("ExecStart=%s is no kubelet", command)
	}
	out := map[string]string{}
	for i := 1; i < len(words); i++ {
		name, ok := strings.CutPrefix(words[i], "--")
		if !ok {
			return nil, fmt.Errorf("%q is no flag", words[i])
		}
		name, value, ok := strings.Cut(name, "=")
		if !ok && i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			i++
			value = words[i]
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("--%s is there twice", name)
		}
		out[name] = value
	}
	return out, nil
}

// wantFlags are the flags of operating-system-manager's profiles, without node labels. No supported kubelet
// has a cloud provider built in.
func wantFlags(r *rendering) map[string]string {
	cloud, isExternal := r.in.Pool.CloudProvider, r.in.Settings.ExternalCloudProvider
	want := map[string]string{
		"bootstrap-kubeconfig": "/etc/kubernetes/bootstrap-kubelet.conf", "kubeconfig": "/var/lib/kubelet/kubeconfig",
		"config": kubeletConf, "cert-dir": "/etc/kubernetes/pki", "container-runtime-endpoint": "unix:///run/containerd/containerd.sock",
	}
	if isExternal {
		want["cloud-provider"] = "external"
	}
	if cloud != "aws" && cloud != "openstack" || cloud == "aws" && isExternal {
		want["hostname-override"] = "${KUBELET_HOSTNAME}"
	}
	if r.values[matrix.Taints] != "none" {
		want["register-with-taints"] = r.in.Settings.InitialTaints
	}
	inTree := !isExternal && slices.Contains([]osm.CloudProvider{"aws", "azure", "gce", "vsphere"}, cloud)
	if !r.in.Pool.Network.GetIPFamily().IsDualstack() || !inTree && !isExternal {
		want["node-ip"] = "${KUBELET_NODE_IP}"
	}
	return want
}

// checkLabels compares the labels with the origin of the profile, and validates them with
// Kubernetes' own code.
func checkLabels(r *rendering, text string) []string {
	var problems []string
	got := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		got[key] = value
		for _, p := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			problems = append(problems, fmt.Sprintf("%q: %s", pair, p))
		}
	}
	want := map[string]string{
		"gitops.k8c.io/profile": r.profile.Name, "gitops.k8c.io/version": r.profile.Spec.Version, "gitops.k8c.io/config": r.configDigest(),
	}
	if c := r.in.Profile.Provenance.Commit; c != "" {
		want["gitops.k8c.io/commit"] = c[:min(len(c), validation.LabelValueMaxLength)]
	}
	if v, ok := got["gitops.k8c.io/commit"]; ok && v == "" {
		delete(got, "gitops.k8c.io/commit") // an empty label says as little as none
	}
	if !r.shipped { // an example may add labels of its own
		maps.DeleteFunc(got, func(key, _ string) bool { return !strings.HasPrefix(key, "gitops.k8c.io/") })
	}
	if !maps.Equal(got, want) {
		problems = append(problems, "(-want +got):\n"+cmp.Diff(want, got))
	}
	return problems
}

// TestProvenance: a node reports its origin in a file and in its labels.
func TestProvenance(t *testing.T) {
	var out report
	for _, r := range renderings(t) {
		if !r.shipped {
			continue
		}
		const name = "/etc/osm-gitops/provenance.json"
		var got map[string]string
		if err := json.Unmarshal([]byte(r.node()[name].content), &got); err != nil {
			out.add(name+": "+err.Error(), r.name)
			continue
		}
		from := r.in.Profile.Provenance
		want := map[string]string{
			"profile": r.profile.Name, "version": r.profile.Spec.Version, "repository": from.Repository, "path": from.Path,
			"commit": from.Commit, "change": from.Change, "config": r.configDigest(),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			out.add(name+" (-want +got):\n"+diff, r.name)
		}
	}
	out.fail(t)
}

// configDigest is the short form of the input's digest, as nodes carry it.
func (r *rendering) configDigest() string {
	return strings.TrimPrefix(r.out.Record.Digests.Input, "v1:sha256:")[:12]
}

// TestKubeletVersions: the version that a pool asks for is the one that is
// downloaded, and crictl's minor is the kubelet's.
func TestKubeletVersions(t *testing.T) {
	var out report
	for _, r := range renderings(t) {
		if !r.shipped {
			continue
		}
		setup := r.node()["/opt/bin/setup"].content
		version := semver.MustParse(r.in.Pool.KubeletVersion)
		for _, want := range []string{"v" + version.String(), fmt.Sprintf("v1.%d.0", version.Minor())} {
			if !strings.Contains(setup, want) {
				out.add("/opt/bin/setup does not name "+want, r.name)
			}
		}
	}
	out.fail(t)
}
