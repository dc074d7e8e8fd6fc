package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
)

// StarterProfile is the first profile of a new repository.
type StarterProfile struct {
	// Profile is its name.
	Profile string
	// Base is the built-in profile on which it is based, BaseVersion its version and BaseText
	// its file.
	Base, BaseVersion string
	BaseText          []byte
	// Full makes the profile a copy of its base instead of an overlay.
	Full bool
	// Stage of the base that accepts files, such as "provisioningConfig".
	Stage string
	// Pool is a pool for rendering.
	Pool Pool
}

// Pool is a MachineDeployment that shows what nodes get from a profile.
type Pool struct {
	Name, Profile, Provider, System, Kubelet string
	// Utility is the profile's provisioning utility if the system has a choice, which is
	// Flatcar.
	Utility string
}

// ProfileAndPoolFiles returns the files of the profile and the pool.
func (s StarterProfile) ProfileAndPoolFiles() (map[string][]byte, error) {
	text := s.overlay()
	if s.Full {
		var err error
		if text, err = s.baseCopy(); err != nil {
			return nil, err
		}
	}
	return map[string][]byte{"profiles/" + s.Profile + ".yaml": text, "pools/" + s.Pool.Name + ".yaml": s.Pool.YAML()}, nil
}

// Readme describes the first profile in Markdown.
func (s StarterProfile) Readme() string {
	how := fmt.Sprintf("adds files to the built-in `%s` %s, and is that in everything it does not name", s.Base, s.BaseVersion)
	if s.Full {
		how = fmt.Sprintf("began as a copy of the built-in `%s` %s", s.Base, s.BaseVersion)
	}
	return fmt.Sprintf("## The first profile\n\n`%s` %s.\nA MachineDeployment uses it by its annotation:\n\n    k8c.io/operating-system-profile: %s\n", s.Profile, how, s.Profile)
}

func (s StarterProfile) overlay() []byte {
	return fmt.Appendf(nil, `# What our nodes have beside what osm-gitops ships for them: the built-in profile, and
# the files below. Every change raises spec.version. `+"`osm-gitops lint`"+` says when the base
# has a newer version, and what this would yield then.
apiVersion: gitops.k8c.io/v1alpha1
kind: ProfileOverlay
metadata:
  name: %s
spec:
  version: v1.0.0
  from:
    profile: %s
    version: %s
  %s:
    files:
      add:
      # An example: who logs in is told where the node comes from.
      - path: /etc/motd
        content:
          inline:
            data: |
              This node was made from profile {{ .Provenance.Profile }} {{ .Provenance.Version }}.
              What is changed by hand here is gone with the machine: open a pull request.
`, s.Profile, s.Base, s.BaseVersion, s.Stage)
}

var (
	assembled    = regexp.MustCompile(`(?m)\A# Assembled from .*\n`)
	firstName    = regexp.MustCompile(`(?m)^metadata:\n  name: .*$`)
	firstVersion = regexp.MustCompile(`(?m)^spec:\n  version: .*$`)
)

// baseCopy returns the base under its new name, with its comments.
func (s StarterProfile) baseCopy() ([]byte, error) {
	if !firstName.Match(s.BaseText) || !firstVersion.Match(s.BaseText) {
		return nil, errors.New("copying " + s.Base + ": its file does not begin as built-in profiles do")
	}
	text := assembled.ReplaceAll(s.BaseText, fmt.Appendf(nil, "# Began as a copy of the built-in %s %s.\n", s.Base, s.BaseVersion))
	text = replaceFirst(firstName, text, "metadata:\n  name: "+s.Profile)
	return replaceFirst(firstVersion, text, "spec:\n  version: v1.0.0"), nil
}

func replaceFirst(re *regexp.Regexp, text []byte, with string) []byte {
	at := re.FindIndex(text)
	return bytes.Join([][]byte{text[:at[0]], []byte(with), text[at[1]:]}, nil)
}

// YAML returns the pool as osm-gitops diff and render need it.
func (p Pool) YAML() []byte {
	system := ""
	if p.Utility != "" {
		system = "\n          operatingSystemSpec:\n            provisioningUtility: " + p.Utility
	}
	return fmt.Appendf(nil, `# An example of a pool, for osm-gitops diff and render: what they read of a
# MachineDeployment. Put yours here, without credentials, or a snapshot of your clusters.
apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata:
  name: %s
  namespace: kube-system
  annotations:
    k8c.io/operating-system-profile: %s
spec:
  template:
    spec:
      versions:
        kubelet: %s
      providerSpec:
        value:
          cloudProvider: %s
          operatingSystem: %s%s
`, p.Name, p.Profile, p.Kubelet, p.Provider, p.System, system)
}
