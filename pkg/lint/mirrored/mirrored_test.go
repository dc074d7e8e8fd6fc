package mirrored_test

import (
	"strings"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/mirrored"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

const smallProfile = `apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata:
  name: osp-small
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: v1.0.0
  supportedCloudProviders:
  - name: hetzner
  - name: vsphere
  bootstrapConfig:
    modules:
      runcmd:
      - /opt/bin/setup
  provisioningConfig:
    templates:
      kubelet: |
        curl -fsSLO https://dl.k8s.io/{{ .KubeVersion }}/bin/linux/amd64/kubelet
    files:
    - path: /opt/bin/setup
      permissions: 755
      content:
        inline:
          data: |
            #!/bin/bash
            {{ template "kubelet" }}
            apt-get install -y jq
            {{- if eq .CloudProviderName "vsphere" }}
            apt-get install -y open-vm-tools
            {{- end }}
            curl -O "https://example.com/$(hostname)?token=c4nary"
    - path: /etc/containerd/config.toml
      content:
        inline:
          data: |
            {{ .ContainerRuntimeConfig }}
`

func notMirrored(t *testing.T, mirrors string, only ...osm.CloudProvider) []lint.Finding {
	t.Helper()
	docs, err := profile.Decode("profiles/small.yaml", []byte(smallProfile))
	if err != nil {
		t.Fatal(err)
	}
	m, err := mirrored.Parse("mirrors.txt", []byte(mirrors))
	if err != nil {
		t.Fatal(err)
	}
	return mirrored.Check(m, "mirrors.txt", only)(t.Context(), docs[0])
}

// TestMirrored: what is not mirrored is found at its line of the profile, with the
// providers for which nodes want it.
func TestMirrored(t *testing.T) {
	const kubelet = "https://dl.k8s.io/v1.35.7/bin/linux/amd64/kubelet\n"
	if found := notMirrored(t, kubelet+"package apt *\nhttps://example.com/\n"); len(found) > 0 {
		t.Errorf("all is mirrored, and found is %+v", found)
	}
	// Downloads for unused providers need no mirror. A profile that supports none of the
	// given providers is checked nevertheless.
	const jq = kubelet + "package apt jq\nhttps://example.com/\n"
	if found := notMirrored(t, jq, "hetzner", "aws"); len(found) > 0 {
		t.Errorf("all is mirrored for hetzner, and found is %+v", found)
	}
	for _, only := range []osm.CloudProvider{"vsphere", "aws"} {
		if found := notMirrored(t, jq, only); len(found) != 1 || !strings.Contains(found[0].Message, "open-vm-tools") {
			t.Errorf("for %s found is %+v", only, found)
		}
	}
	// The file lists no kubelet, so the version is unknown.
	found := notMirrored(t, "package apt jq\n")
	want := []struct {
		line                      int
		message, where, file, fix string
	}{
		{19, "https://dl.k8s.io/v1.36.0/bin/linux/amd64/kubelet is not mirrored", "", "/opt/bin/setup", "mirror it and add it to mirrors.txt"},
		{30, "package apt open-vm-tools is not mirrored", "vsphere, kubelet 1.36.0", "/opt/bin/setup", "mirror it and add it to mirrors.txt"},
		{32, "https://example.com/${hostname}?... cannot be compared with the mirrored items: a part of this URL is known only on the node", "", "/opt/bin/setup", "make it constant in the profile"},
	}
	if len(found) != len(want) {
		t.Fatalf("found %+v", found)
	}
	for i, w := range want {
		f := found[i]
		if strings.Contains(f.Message+f.Fix, "c4nary") {
			t.Errorf("it tells a token (security.md 15): %s", f.Message)
		}
		if f.Rule != lint.RuleNotMirrored || f.Severity != lint.SeverityError || f.Path != "profiles/small.yaml" || f.Profile != "osp-small" || !strings.HasPrefix(f.Fix, w.fix) ||
			f.Line != w.line || !strings.HasPrefix(f.Message, w.message) || f.Where != w.where || f.File != w.file {
			t.Errorf("found %+v, want %+v", f, w)
		}
	}
}

// TestMirroredBroken: of a profile that does not render, nothing is said to be mirrored.
func TestMirroredBroken(t *testing.T) {
	docs, err := profile.Decode("a.yaml", []byte(strings.Replace(smallProfile, ".KubeVersion", ".KubletVersion", 1)))
	if err != nil {
		t.Fatal(err)
	}
	found := mirrored.Check(mirrored.Mirrors{}, "m", nil)(t.Context(), docs[0])
	if len(found) != 1 || found[0].Line != 19 || !strings.Contains(found[0].Message, "does not render") {
		t.Errorf("found %+v", found)
	}
}

// TestMirroredFlatcar: a profile is rendered with the provisioning utility that it is for.
func TestMirroredFlatcar(t *testing.T) {
	for _, utility := range []string{"cloud-init", "ignition"} {
		docs, err := profile.Decode("a.yaml", []byte(strings.Replace(smallProfile, "osName: ubuntu", "osName: flatcar\n  provisioningUtility: "+utility, 1)))
		if err != nil {
			t.Fatal(err)
		}
		found := mirrored.Check(mirrored.Mirrors{}, "m", nil)(t.Context(), docs[0])
		if len(found) == 0 {
			t.Errorf("%s: nothing is found", utility)
		}
		for _, f := range found {
			if strings.Contains(f.Message, "does not render") {
				t.Errorf("%s: %s", utility, f.Message)
			}
		}
	}
}

// TestMirroredWhere: of the combinations for which a finding holds the first three are named.
func TestMirroredWhere(t *testing.T) {
	const kubelets = "https://dl.k8s.io/v1.33.1/bin/linux/amd64/kubelet\nhttps://dl.k8s.io/v1.34.1/bin/linux/amd64/kubelet\nhttps://dl.k8s.io/v1.35.7/bin/linux/amd64/kubelet\n"
	for more, want := range map[string]string{
		"": "vsphere, kubelet 1.33.1; vsphere, kubelet 1.34.1; vsphere, kubelet 1.35.7",
		"https://dl.k8s.io/v1.36.0/bin/linux/amd64/kubelet\n": "vsphere, kubelet 1.33.1; vsphere, kubelet 1.34.1; vsphere, kubelet 1.35.7; and 1 more",
	} {
		found := notMirrored(t, kubelets+more+"package apt jq\nhttps://example.com/\n")
		if len(found) != 1 || !strings.Contains(found[0].Message, "open-vm-tools") || found[0].Where != want {
			t.Errorf("found %+v, want one finding for %q", found, want)
		}
	}
}
