package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/program"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// bench is one run.
type bench struct {
	table
	options
	dir      string
	cluster  *cluster.Cluster
	server   *server
	client   client.WithWatch
	progress io.Writer

	binary     string
	kubeconfig string
	controller *controller
	secrets    *watcher
	repository *testenv.Repository
	version    int // the patch of the version of profiles that are pushed to

	created, rotated phase // all pools by the controller
	oneLatency       []time.Duration
}

// phase is what it took to create or to rotate pools.
type phase struct {
	pools int
	took  time.Duration // until the last Secret
	load  load
}

// rate is in pools per second.
func (p phase) rate() float64 { return float64(p.pools) / p.took.Seconds() }

// cpuRatio compares the API server's CPU per pool.
func (p phase) cpuRatio(to phase) float64 {
	return float64(p.load.apiserver) / float64(p.pools) / (float64(to.load.apiserver) / float64(to.pools))
}

// bar is a target that depends on the tokens of nodes.
func (b *bench) bar(bound, shared float64) float64 {
	if b.token == "shared" {
		return shared
	}
	return bound
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) release() string { return fmt.Sprintf("v9.0.%d", b.version) }

// begin installs everything and starts the controller with profiles from Git.
func (b *bench) begin(ctx context.Context) error {
	b.binary = b.path("osm-gitops")
	if err := program.Controller(ctx, b.binary); err != nil {
		return err
	}
	if err := b.beginCluster(ctx); err != nil {
		return err
	}
	var err error
	if b.repository, err = testenv.NewRepository(ctx, b.path("repository")); err != nil {
		return err
	}
	if err := b.push(ctx); err != nil {
		return err
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	source := &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "scale"},
		Spec: api.ProfileSourceSpec{
			Directory: &api.DirectorySource{Path: b.repository.Current()},
			Interval:  metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute},
		},
	}
	if err := b.client.Create(ctx, source); err != nil {
		return err
	}
	return testenv.Until(ctx, time.Minute, "the profiles are applied", func() error {
		if err := b.client.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
			return err
		}
		if len(source.Status.Profiles) != 4 {
			return fmt.Errorf("there are %d: %v", len(source.Status.Profiles), source.Status.Conditions)
		}
		return nil
	})
}

// beginCluster installs what pools need in a new cluster, and follows their Secrets.
func (b *bench) beginCluster(ctx context.Context) error {
	if err := testenv.Install(ctx, b.cluster); err != nil {
		return err
	}
	var err error
	if b.client, err = b.cluster.NewClient(); err != nil {
		return err
	}
	if b.server, err = newServer(b.cluster); err != nil {
		return err
	}
	if err := b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: poolNamespace}}); err != nil {
		return err
	}
	b.secrets, err = watchSecrets(ctx, b.client)
	return err
}

func (b *bench) start(ctx context.Context) error {
	b.kubeconfig = b.path("kubeconfig")
	err := testenv.Kubeconfig(ctx, b.cluster, b.kubeconfig, b.cluster.URL, b.cluster.Config.CAData)
	if err != nil {
		return err
	}
	webhooks := "0" // none
	if b.webhooks {
		if webhooks, err = testenv.FreeAddress(); err != nil {
			return err
		}
		if err := testenv.InstallWebhooks(ctx, b.cluster, webhooks); err != nil {
			return err
		}
	}
	b.controller, err = startController(b.binary, b.path("controller.log"),
		"--kubeconfig", b.kubeconfig, "--namespace", metav1.NamespaceSystem, "--cache-dir", b.path("mirrors"),
		"--webhook-address", webhooks, "--webhook-hosts", "127.0.0.1",
		"--directory-root", b.repository.Dir, "--external-cloud-provider", "--disable-default-osps", "--node-token", b.token)
	if err != nil {
		return err
	}
	if err := b.controller.ready(ctx); err != nil || !b.webhooks {
		return err
	}
	return testenv.Until(ctx, time.Minute, "the API server calls the webhooks", func() error {
		probe := machineDeployment("probe", 0, profileOf(0))
		err := b.client.Create(ctx, probe, client.DryRunAll)
		if err == nil && !controllerutil.ContainsFinalizer(probe, api.FinalizerPool) {
			err = errors.New("a new pool has no finalizer")
		}
		return err
	})
}

func (b *bench) end() {
	if b.controller != nil {
		b.controller.Stop()
		b.controller = nil
	}
}

// lastLogErrors are the last complaints in the controller's log.
func (b *bench) lastLogErrors() string {
	const enough = 10
	data, err := os.ReadFile(b.path("controller.log"))
	if err != nil {
		return err.Error()
	}
	lines := slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool { return !strings.Contains(line, `"level":"error"`) })
	return strings.Join(lines[max(0, len(lines)-enough):], "\n")
}

// push commits the next version of two of our profiles; two more, the same under
// another name, stay what they are.
func (b *bench) push(ctx context.Context) error {
	root, err := program.Root()
	if err != nil {
		return err
	}
	b.version++
	files := map[string]string{}
	for _, name := range []string{"osp-ubuntu", "osp-flatcar"} {
		text, err := os.ReadFile(filepath.Join(root, "profiles", name+".yaml"))
		if err != nil {
			return err
		}
		before, after, _ := strings.Cut(string(text), "\n  version: ")
		_, after, _ = strings.Cut(after, "\n")
		at := func(version string) string { return before + "\n  version: " + version + "\n" + after }
		files[name+".yaml"] = at(b.release())
		files[name+still+".yaml"] = strings.Replace(at(stillRelease), "name: "+name+"\n", "name: "+name+still+"\n", 1)
	}
	_, err = b.repository.Push(ctx, files)
	return err
}
