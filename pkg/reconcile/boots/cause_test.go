package boots

import (
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// builtin returns a built-in profile, and an input that renders it.
func builtin(t *testing.T, name, system, provider string) (*profile.Document, render.Input) {
	t.Helper()
	path := "../../../profiles/" + name + ".yaml"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := profile.Decode(name+".yaml", text)
	if err != nil || len(docs) != 1 {
		t.Fatalf("%d profiles, error %v", len(docs), err)
	}
	system, utility, _ := strings.Cut(system, "/")
	spec := "{}"
	if utility != "" {
		spec = `{"provisioningUtility":"` + utility + `"}`
	}
	md := &cluster.MachineDeployment{}
	md.Namespace, md.Name = "shop", "pool"
	md.Spec.Template.Spec.Versions.Kubelet = "1.35.0"
	md.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"` + provider + `","cloudProviderSpec":{},"operatingSystem":"` + system + `","operatingSystemSpec":` + spec + `}`)}
	pool, err := render.DecodePool(md)
	if err != nil {
		t.Fatal(err)
	}
	in := render.Input{
		Profile: render.Profile{Spec: docs[0].Spec, Object: name, Digest: docs[0].Digest, Provenance: render.Provenance{
			Profile: docs[0].Name, Version: docs[0].Spec.Version, Path: docs[0].Path,
		}},
		Pool: pool, Settings: render.Settings{ClusterDNS: []string{"10.96.0.10"}, Namespace: "kube-system", KubernetesCACert: "ca"},
		Cluster: render.Cluster{Server: "https://api.example.com:6443", APIServerToken: "token", BootstrapToken: "token"},
	}
	in.Cluster.BootstrapKubeconfig = render.BootstrapKubeconfig(in.Cluster.Server, "ca", "token")
	return &docs[0], in
}

// inspected renders an input with the origin of its lines.
func inspected(t *testing.T, doc *profile.Document, in render.Input) *rendering {
	t.Helper()
	seen, err := render.NewInspector(in.Profile).Inspect(in)
	if seen == nil {
		t.Fatal(err)
	}
	return &rendering{doc, seen}
}

// Every line of a script of a built-in profile that is text of the profile is found there, also if
// bash names another one nearby.
func TestLinesOfBuiltinProfiles(t *testing.T) {
	for name, of := range map[string][2]string{
		"osp-ubuntu": {"ubuntu", "hetzner"}, "osp-flatcar": {"flatcar", "aws"}, "osp-flatcar-cloud-init": {"flatcar/cloud-init", "anexia"},
		"osp-rhel": {"rhel", "aws"}, "osp-rockylinux": {"rockylinux", "hetzner"}, "osp-amzn2": {"amzn2", "aws"},
	} {
		t.Run(name, func(t *testing.T) {
			doc, in := builtin(t, name, of[0], of[1])
			s := inspected(t, doc, in)
			text, err := os.ReadFile("../../../profiles/" + name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			source, exact := strings.Split(string(text), "\n"), 0
			for stage, files := range map[api.BootStage][]render.InspectedFile{api.BootStageBootstrap: s.Bootstrap.Files, api.BootStageSetup: s.Provisioning.Files} {
				for _, f := range files {
					lines := strings.Split(f.Content, "\n")
					if !strings.HasPrefix(f.Content, "#!") {
						continue
					}
					for i, line := range lines {
						command := words(line)
						// A part of a line with a template's action is not text of the profile.
						if len(command) < shortestCredential || strings.HasPrefix(command, "#") || strings.ContainsAny(line, "\"'") || !strings.Contains(string(text), line) {
							continue
						}
						file, n, near := s.find(&api.MachineBoot{Stage: stage, File: f.Path, Line: int32(i + 1), Command: command})
						if file != name+".yaml" || n < 1 || int(n) > len(source) || near || !hasCommand(words(source[n-1]), command) {
							t.Errorf("%s:%d %q: %s:%d near %t", f.Path, i+1, command, file, n, near)
						}
						exact++
					}
				}
			}
			if exact < 20 {
				t.Errorf("only %d lines were compared", exact)
			}
		})
	}
}

func TestNearestLine(t *testing.T) {
	script := append(append([]string{"#!/bin/bash", "set -e", "# curl -f a", "curl -f \\", "  --retry 3 \\", "  a", "exit 1", "curl -f b"}, slices.Repeat([]string{"true"}, 30)...), "  apt-get   install x", "wget -O list --quiet https \\")
	for name, c := range map[string]struct {
		reported int
		command  string
		line     int
		near     bool
	}{
		"the line itself":                      {8, "curl -f b", 8, false},
		"without a command":                    {7, "", 7, false},
		"no line is reported":                  {0, "set -e", 0, false},
		"a command over several lines":         {6, "curl -f --retry 3 a", 4, true},
		"never a comment":                      {3, "# curl -f a", 0, false},
		"indented in another way":              {39, "apt-get install x", 39, false},
		"20 lines away":                        {19, "apt-get install x", 39, true},
		"21 lines away":                        {18, "apt-get install x", 0, false},
		"another command":                      {8, "rm -rf /", 0, false},
		"an argument is masked":                {8, "curl -f ••••••", 8, false},
		"masked by the node":                   {8, "curl *** b", 8, false},
		"masked at the end by the node":        {8, "curl -f ***", 8, false},
		"masked twice, by both":                {8, "curl ****** b••••••", 8, false},
		"another command after a mask":         {8, "curl *** https://example.com", 0, false},
		"masked, over several lines":           {6, "curl *** --retry 3 a", 0, false},
		"masked in its first line":             {4, "curl ***f \\", 4, false},
		"masked, ends within":                  {40, "wget *** --quiet https://example.com", 40, false},
		"masked, ends with the same letter":    {40, "wget *** setup", 0, false},
		"masked from the beginning":            {8, "••••••", 0, false},
		"masked from the beginning by a node":  {8, "***", 0, false},
		"no line of the script":                {900, "", 0, false},
		"no line of the script with a command": {1_000_000, "curl -f b", 0, false},
	} {
		line, near := nearestLine(script, c.reported, c.command)
		if line != c.line || near != c.near {
			t.Errorf("%s: line %d near %t, want %d %t", name, line, near, c.line, c.near)
		}
	}
}
