package manager

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// warnOfSettings reports settings that probably do not have the intended effect, in the log
// and in an event on each ProfileSource, whose profiles use them.
func warnOfSettings(mgr ctrl.Manager, opts *Options, deps dependencies, recorder events.EventRecorder) error {
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		machines := opts.poolReconciler(deps)
		if deps.registry != nil {
			machines.Registry = deps.registry
		}
		settings, _ := machines.NodeSettings(ctx) // pools report problems of the Secret
		warnings := settings.Warnings()
		for _, w := range warnings {
			ctrl.Log.Info("a setting probably does not have the intended effect", "setting", w.Setting, "value", w.Value, "problem", w.Problem, "remedy", w.Remedy)
		}
		if len(warnings) == 0 {
			return nil
		}
		informer, err := mgr.GetCache().GetInformer(ctx, &api.ProfileSource{})
		if err != nil {
			return fmt.Errorf("watching ProfileSources: %w", err)
		}
		emitWarnings := func(obj any) {
			if ps, ok := obj.(*api.ProfileSource); ok && ps.Namespace == opts.Namespace {
				for _, w := range warnings {
					recorder.Eventf(ps, nil, corev1.EventTypeWarning, api.EventSettingDoubtful, "Start", "%s", w)
				}
			}
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: emitWarnings})
		return err
	}))
}

// readSettings adds the certificates; cfg is the config of the worker cluster.
func (opts *Options) readSettings(cfg *rest.Config) (render.Settings, error) {
	s := opts.Settings
	var err error
	if opts.HostCAFile != "" {
		if s.HostCACert, err = readCertificates("host-ca-bundle", opts.HostCAFile); err != nil {
			return s, err
		}
	}
	if opts.KubernetesCAFile != "" {
		s.KubernetesCACert, err = readCertificates("kubernetes-ca-bundle", opts.KubernetesCAFile)
	} else {
		s.KubernetesCACert, err = opts.clusterCA(cfg)
	}
	return s, err
}

// readCertificates reads a bundle with at least one certificate.
func readCertificates(flag, file string) (string, error) {
	b, err := os.ReadFile(file) // the operator names it
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	for rest := b; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return "", fmt.Errorf("--%s: %s contains no certificate in PEM", flag, file)
		}
		if block.Type == "CERTIFICATE" {
			return string(b), nil
		}
	}
}

// clusterCA finds the CA that nodes trust for the API server if no flag names one.
func (opts *Options) clusterCA(cfg *rest.Config) (string, error) {
	flag, file := "kubeconfig", opts.Kubeconfig
	if opts.WorkerKubeconfig != "" {
		flag, file = "worker-cluster-kubeconfig", opts.WorkerKubeconfig
	}
	if file != "" {
		config, err := clientcmd.LoadFromFile(file)
		if err != nil {
			return "", fmt.Errorf("--%s: %w", flag, err)
		}
		if len(config.Clusters) != 1 {
			return "", fmt.Errorf("--%s: %s has %d clusters: name the CA with --kubernetes-ca-bundle, or leave one cluster", flag, file, len(config.Clusters))
		}
		for _, c := range config.Clusters {
			if len(c.CertificateAuthorityData) == 0 {
				return "", fmt.Errorf("--%s: %s has no certificate-authority-data: name the CA with --kubernetes-ca-bundle", flag, file)
			}
			return string(c.CertificateAuthorityData), nil
		}
	}
	if len(cfg.CAData) > 0 {
		return string(cfg.CAData), nil
	}
	if cfg.CAFile != "" {
		b, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return "", fmt.Errorf("reading the cluster's CA: %w", err)
		}
		return string(b), nil
	}
	return "", errors.New("no CA of the cluster is known: name it with --kubernetes-ca-bundle")
}
