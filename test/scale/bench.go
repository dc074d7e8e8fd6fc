package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// bench is one run.
type bench struct {
	table
	options
	dir      string
	cluster  *cluster.Cluster
	client   client.WithWatch
	progress io.Writer

	binary     string
	kubeconfig string
	controller *controller
	secrets    *watcher
	repository string
	version    int    // the patch of the version of profiles that are pushed to
	shipped    string // the version of those that are not

	ours       time.Duration // to create all pools
	ourWrites  float64       // of the controller, for that
	oneLatency []time.Duration
	oneWrites  float64
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) release() string { return fmt.Sprintf("v9.0.%d", b.version) }

// begin installs everything and starts the controller with profiles from Git.
func (b *bench) begin(ctx context.Context) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	b.binary = b.path("osm-gitops")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.binary, "./cmd/osm-gitops")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the controller: %w\n%s", err, out)
	}
	if err := b.install(ctx, root); err != nil {
		return err
	}
	if err := b.repo(ctx, root); err != nil {
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
			Directory: &api.DirectorySource{Path: b.path("current")},
			Interval:  metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute},
		},
	}
	if err := b.client.Create(ctx, source); err != nil {
		return err
	}
	return until(ctx, time.Minute, "the profiles are applied", func() error {
		if err := b.client.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
			return err
		}
		if len(source.Status.Profiles) != 4 {
			return fmt.Errorf("there are %d: %v", len(source.Status.Profiles), source.Status.Conditions)
		}
		return nil
	})
}

// install applies what an operator applies, and what kubeadm brings.
func (b *bench) install(ctx context.Context, root string) error {
	if err := b.cluster.Install(ctx); err != nil {
		return err
	}
	if err := b.cluster.Apply(ctx, filepath.Join(root, "deploy/cloud-init-settings.yaml"), filepath.Join(root, "deploy/rbac.yaml")); err != nil {
		return err
	}
	var err error
	if b.client, err = b.cluster.NewClient(); err != nil {
		return err
	}
	info, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {
		Server: b.cluster.URL, CertificateAuthorityData: b.cluster.Config.CAData,
	}}})
	if err != nil {
		return err
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: poolNamespace}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
			Data:       map[string]string{"kubeconfig": string(info)},
		},
	} {
		if err := b.client.Create(ctx, obj); err != nil {
			return err
		}
	}
	err = until(ctx, time.Minute, "the getter has a token", func() error {
		var secret corev1.Secret
		err := b.client.Get(ctx, client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: api.SecretGetterToken}, &secret)
		if err == nil && len(secret.Data["token"]) == 0 {
			err = fmt.Errorf("secret %s is empty", secret.Name)
		}
		return err
	})
	if err != nil {
		return err
	}
	b.secrets, err = watchSecrets(ctx, b.client)
	return err
}

// serviceAccount writes a kubeconfig with the rights of deploy/rbac.yaml.
func (b *bench) serviceAccount(ctx context.Context) error {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "osm-gitops"}}
	day := int64(24 * time.Hour / time.Second)
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
	if err := b.client.SubResource("token").Create(ctx, sa, token); err != nil {
		return err
	}
	b.kubeconfig = b.path("kubeconfig")
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: b.cluster.URL, CertificateAuthorityData: b.cluster.Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, b.kubeconfig)
}

func (b *bench) start(ctx context.Context) error {
	if err := b.serviceAccount(ctx); err != nil {
		return err
	}
	var err error
	b.controller, err = startController(b.binary, b.path("controller.log"),
		"--kubeconfig", b.kubeconfig, "--namespace", metav1.NamespaceSystem, "--cache-dir", b.path("mirrors"),
		"--directory-root", b.dir, "--external-cloud-provider", "--disable-default-osps", "--node-token", b.token)
	if err != nil {
		return err
	}
	return b.controller.ready(ctx)
}

func (b *bench) end() {
	if b.controller != nil {
		b.controller.stop()
	}
}

// lastWords are the last complaints in the controller's log.
func (b *bench) lastWords() string {
	const enough = 10
	data, err := os.ReadFile(b.path("controller.log"))
	if err != nil {
		return err.Error()
	}
	lines := slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool { return !strings.Contains(line, `"level":"error"`) })
	return strings.Join(lines[max(0, len(lines)-enough):], "\n")
}

// repo makes a repository of two of our profiles, each under two names.
func (b *bench) repo(ctx context.Context, root string) error {
	b.repository = b.path("repository")
	if err := b.git(ctx, b.dir, "init", "--quiet", "--initial-branch=main", b.repository); err != nil {
		return err
	}
	for _, name := range []string{"osp-ubuntu", "osp-flatcar"} {
		text, err := os.ReadFile(filepath.Join(root, "profiles", name+".yaml"))
		if err != nil {
			return err
		}
		_, after, _ := strings.Cut(string(text), "\n  version: ")
		b.shipped, _, _ = strings.Cut(after, "\n")
		other := strings.Replace(string(text), "name: "+name+"\n", "name: "+name+still+"\n", 1)
		for file, content := range map[string]string{name: string(text), name + still: other} {
			if err := os.WriteFile(filepath.Join(b.repository, file+".yaml"), []byte(content), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// push commits the next version of two of the profiles, and lets the link that the
// controller follows point to a clone of it, as git-sync does.
func (b *bench) push(ctx context.Context) error {
	b.version++
	for _, name := range []string{"osp-ubuntu", "osp-flatcar"} {
		path := filepath.Join(b.repository, name+".yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := strings.SplitAfter(string(text), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "  version: v") {
				lines[i] = "  version: " + b.release() + "\n"
				break
			}
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			return err
		}
	}
	clone := b.path(fmt.Sprintf("clone-%d", b.version))
	for _, args := range [][]string{
		{"-C", b.repository, "add", "."},
		{"-C", b.repository, "commit", "--quiet", "--message=" + b.release()},
		{"clone", "--quiet", b.repository, clone},
	} {
		if err := b.git(ctx, b.dir, args...); err != nil {
			return err
		}
	}
	next := b.path("next")
	if err := os.Symlink(clone, next); err != nil {
		return err
	}
	return os.Rename(next, b.path("current"))
}

func (b *bench) git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ben", "GIT_COMMITTER_EMAIL=ben@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
