package cloudprovider

import (
	"cmp"
	"encoding/base64"
	"errors"
	"unicode/utf8"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"
)

// The environment variables that replace missing values of kubevirtSpec.
const (
	envKubevirtKubeconfig = "KUBEVIRT_KUBECONFIG"
	envPodNamespace       = "POD_NAMESPACE"
)

// kubevirtNamespace is the namespace of virtual machines without POD_NAMESPACE.
const kubevirtNamespace = "kube-system"

// kubevirtSpec has the fields of the cloudProviderSpec of kubevirt that are used.
type kubevirtSpec struct {
	Auth struct {
		Kubeconfig configVarString `json:"kubeconfig"`
	} `json:"auth"`
}

// kubevirtConfig is the configuration. Its fields are in the order of the text.
type kubevirtConfig struct {
	Global struct {
		Kubeconfig string `yaml:"kubeconfig"`
		Namespace  string `yaml:"namespace"`
	} `yaml:"global"`
}

func (s *kubevirtSpec) cloudConfig(_ *semver.Version, r *resolver) string {
	const field = "auth.kubeconfig"
	r.lines = true
	kubeconfig := r.textOrEnv(field, s.Auth.Kubeconfig, envKubevirtKubeconfig)
	_, refers := s.Auth.Kubeconfig.effectiveRef()
	inline := !refers && s.Auth.Kubeconfig.value != ""
	plain, err := base64.StdEncoding.DecodeString(kubeconfig)
	switch {
	case err == nil && utf8.Valid(plain):
		kubeconfig = string(plain)
	case inline && s.Auth.Kubeconfig.err == nil:
		r.addProblem(field, errors.New("is not a kubeconfig in base64: encode it, or store it in a Secret and name that in secretKeyRef"))
	}
	var c kubevirtConfig
	c.Global.Kubeconfig = kubeconfig
	c.Global.Namespace = cmp.Or(r.values.Environment[envPodNamespace], kubevirtNamespace)
	b, err := yaml.Marshal(c)
	if err != nil {
		r.addProblem(field, errors.New("cannot be written as YAML"))
	}
	return string(b)
}
