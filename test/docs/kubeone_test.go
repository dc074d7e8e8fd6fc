package docs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/osm-gitops/osm-gitops/test/platforms"
)

// kubeoneEnv makes this program kubeone.
const kubeoneEnv = "OSM_KUBEONE"

func TestMain(m *testing.M) {
	if os.Getenv(kubeoneEnv) == "" {
		os.Exit(m.Run())
	}
	if err := kubeoneApply(context.Background(), os.Args[1:]); err != nil { //nolint:forbidigo // this is no test
		fmt.Fprintln(os.Stderr, "kubeone:", err)
		os.Exit(1)
	}
}

// kubeoneApply does with the addon operating-system-manager what "kubeone apply" does: it applies the
// folder below the addons path of the KubeOneCluster, or its own addon.
func kubeoneApply(ctx context.Context, args []string) error {
	if len(args) != 3 || args[0] != "apply" || args[1] != "--manifest" {
		return fmt.Errorf("unexpected arguments %q", args)
	}
	text, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	var manifest struct {
		Addons struct {
			Path   string
			Addons []struct {
				Name   string
				Params map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return err
	}
	d := platforms.Data{
		Certificates: map[string]string{"OSMWebhookCert": "cert", "OSMWebhookKey": "key", "KubernetesCA": string(config.CAData)},
		Resources:    map[string]string{"NodeLocalDNSVirtualIP": "169.254.20.10"},
	}
	d.Config.Features.NodeLocalDNS = &platforms.NodeLocalDNS{Deploy: true}
	for _, a := range manifest.Addons.Addons {
		if a.Name == platforms.Addon {
			d.Params = a.Params
		}
	}
	folder, err := filepath.Abs(filepath.Join(manifest.Addons.Path, platforms.Addon))
	if err != nil {
		return err
	}
	if err := os.Chdir(os.Getenv("REPOSITORY")); err != nil { // which has KubeOne's own addon
		return err
	}
	objects, err := platforms.ExecuteFolder(folder, d)
	if manifest.Addons.Path == "" || errors.Is(err, fs.ErrNotExist) {
		objects, err = platforms.Embedded()
	}
	if err != nil {
		return err
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		return err
	}
	return platforms.Apply(ctx, kubectl, os.Getenv("KUBECONFIG"), objects)
}
