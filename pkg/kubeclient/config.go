package kubeclient

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// ControllerConfig returns the controller's config for a cluster: from the file of
// --kubeconfig or, without one, what controller-runtime finds in the environment.
func ControllerConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		return FileConfig("kubeconfig", kubeconfig)
	}
	cfg, err := config.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w: set --kubeconfig", err)
	}
	return rejectPluginsAndUnlimitRate("the kubeconfig of the environment", cfg)
}

// FileConfig returns the controller's config for the cluster of a file, which a flag names.
func FileConfig(flag, path string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return rejectPluginsAndUnlimitRate("--"+flag, cfg)
}

// rejectPluginsAndUnlimitRate rejects configs that would run a program: a kubeconfig is data
// (security.md 23).
func rejectPluginsAndUnlimitRate(where string, cfg *rest.Config) (*rest.Config, error) {
	switch {
	case cfg.ExecProvider != nil:
		return nil, fmt.Errorf("%s: its user has exec, and no program is run for a kubeconfig: give the user a token, tokenFile or client certificate", where)
	case cfg.AuthProvider != nil:
		return nil, fmt.Errorf("%s: its user has auth-provider %q, which is not supported: give the user a token, tokenFile or client certificate", where, cfg.AuthProvider.Name)
	}
	return disableRateLimit(cfg), nil
}

// UserConfig reads a user's own kubeconfig, as kubectl does. It accepts exec, which the
// controller rejects, since the same program runs for every kubectl command of that user.
func UserConfig(flag, kubeconfig, context string) (*rest.Config, error) {
	cfg, err := userKubeconfig(kubeconfig, context).ClientConfig()
	if err != nil {
		if kubeconfig == "" && strings.Contains(err.Error(), "KUBERNETES_MASTER") { // the default error recommends a variable that is not supported
			return nil, fmt.Errorf("finding the cluster: no kubeconfig found: set --%s", flag)
		}
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return disableRateLimit(cfg), nil
}

// UserNamespace returns the namespace of a context, "default" if it has none.
func UserNamespace(kubeconfig, context string) string {
	namespace, _, err := userKubeconfig(kubeconfig, context).Namespace()
	if err != nil {
		return metav1.NamespaceDefault
	}
	return namespace
}

func userKubeconfig(kubeconfig, context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
}

// disableRateLimit leaves rate limiting to the API server: the default client limit of 20 requests
// a second would delay a hundred pools by half a minute.
func disableRateLimit(cfg *rest.Config) *rest.Config {
	cfg.QPS = -1
	return cfg
}
