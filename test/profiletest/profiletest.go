package profiletest

import (
	"strings"
	"testing/fstest"

	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Small is a profile with few fields.
const Small = `apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata:
  name: osp-test
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: v1.0.0
  supportedCloudProviders:
  - name: aws
  bootstrapConfig:
    templates:
      hello: |-
        echo hello
    files:
    - path: /opt/a
      permissions: 755
      content:
        inline:
          encoding: b64
          data: |
            one
            two
  provisioningConfig: {}
`

// Base is a profile with one of everything that an overlay can patch.
const Base = `apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata:
  name: osp-base
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: v1.0.0
  supportedCloudProviders:
  - name: aws
  - name: hetzner
  bootstrapConfig:
    templates:
      hello: echo hello
      bye: |
        echo bye
    modules:
      runcmd: [systemctl restart bootstrap.service]
    files:
    - path: /opt/first
      permissions: 755
      content:
        inline:
          encoding: b64
          data: |
            one
            two
    - path: /opt/second
      content: {inline: {data: "2"}}
    units:
    - name: first.service
      enable: true
      content: "[Unit]"
  provisioningConfig:
    supportedContainerRuntimes:
    - name: containerd
      files:
      - path: /etc/containerd/config.toml
        content: {inline: {data: "version = 2"}}
      templates:
        install: apt-get install containerd.io
    files:
    - path: /opt/third
      content: {inline: {data: "3"}}
`

// Overlay begins an overlay on it; what follows is its spec.
const Overlay = `apiVersion: gitops.k8c.io/v1alpha1
kind: ProfileOverlay
metadata:
  name: osp-over
spec:
  version: v2.0.0
  from: {profile: osp-base, version: v1.0.0}
`

// BaseAt is the base profile at a version, overAt an overlay with a text of its own.
func BaseAt(version string) *string {
	file := strings.NewReplacer("v1.0.0", version, "version = 2", "version "+version).Replace(Base)
	return &file
}

func OverlayAt(name, version, from, fromVersion, content string) *string {
	file := strings.NewReplacer("osp-over", name, "v2.0.0", version, "osp-base", from, "v1.0.0", fromVersion).Replace(Overlay) +
		"  bootstrapConfig: {templates: {replace: {hello: " + content + "}}}\n"
	return &file
}

// Builtins are the built-in profiles of these tests: osp-builtin v1.0.0.
func Builtins() *source.Embedded {
	return &source.Embedded{
		FS:         fstest.MapFS{"osp-builtin.yaml": {Data: []byte(strings.ReplaceAll(Base, "osp-base", "osp-builtin"))}},
		Repository: "https://example.com/builtin.git", Path: "shipped",
	}
}
