package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/clusters"
	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/impact"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/publish"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/selection/windows"
)

// PoolFlags choose the source of pools.
type PoolFlags struct {
	manifests, cluster, snapshot string
	source                       string
	kube                         PoolCluster
}

// PoolCluster chooses the cluster, or clusters, to read.
type PoolCluster struct {
	clusters.Flags

	namespace string
}

func (f *PoolCluster) Bind(cmd *cobra.Command) {
	f.Flags.Bind(cmd)
	clusters.BindNamespace(cmd.Flags(), &f.namespace)
}

// Read reads the pools of a cluster.
func (f *PoolCluster) Read(ctx context.Context) (impact.PoolSnapshot, error) {
	management, worker, err := f.Clients()
	if err != nil {
		return impact.PoolSnapshot{}, err
	}
	return publish.Reader{Management: management, Worker: worker, Settings: management, Namespace: f.namespace}.Read(ctx)
}

func (f *PoolFlags) Bind(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.manifests, "machine-deployments", "", "`DIR` or file with manifests of MachineDeployments and ProfileSources")
	fs.StringVar(&f.cluster, "cluster", "", "cluster `FILE` of osm-gitops render, for --machine-deployments; default: a controller without flags")
	fs.StringVar(&f.snapshot, "snapshot", "", "`FILE` of osm-gitops snapshot or ConfigMap "+impact.ConfigMapName)
	fs.StringVar(&f.source, "source", "", "`NAME` of this repository's ProfileSource, for --kubeconfig and --snapshot: rejects profiles of other sources")
	f.kube.Bind(cmd)
	fs.Lookup("kubeconfig").Usage = "kubeconfig `FILE` of a cluster to read"
	fs.Lookup("context").Usage = "`NAME` of its context, or of one of $KUBECONFIG or ~/.kube/config, whose cluster to read"
}

// Check rejects invalid combinations of flags. The usage is that of the command.
func (f *PoolFlags) Check(usage string) error {
	sourceFlags := 0
	for _, set := range []bool{f.manifests != "", f.kube.IsSet(), f.snapshot != ""} {
		if set {
			sourceFlags++
		}
	}
	switch {
	case sourceFlags > 1:
		return cli.Misusef(usage, "--machine-deployments, --kubeconfig and --snapshot exclude each other")
	case sourceFlags == 0, f.kube.IsSet() && f.kube.Kubeconfig == "" && f.kube.Context == "": // $KUBECONFIG alone chooses no cluster
		return cli.Misusef(usage, "name the pools: --machine-deployments, --kubeconfig or --snapshot is missing, and no %s names a folder of pools", lint.ConfigName)
	case f.cluster != "" && f.manifests == "":
		return cli.Misusef(usage, "--cluster is for --machine-deployments: a cluster and a snapshot have their own settings")
	}
	if f.source != "" && f.manifests != "" {
		return cli.Misusef(usage, "--source is for --kubeconfig and --snapshot: manifests do not contain the profiles of a ProfileSource")
	}
	return nil
}

// PoolSnapshot reads the pools.
func (f *PoolFlags) PoolSnapshot(ctx context.Context, stderr io.Writer) (impact.PoolSnapshot, error) {
	out, err := f.readSnapshot(ctx, stderr)
	if err != nil || f.source == "" {
		return out, err
	}
	var names []string
	for _, s := range out.Sources {
		names = append(names, s.Name)
	}
	if !slices.Contains(names, f.source) {
		return out, fmt.Errorf("--source: ProfileSource %q not found; there are %s", f.source, strings.Join(names, ", "))
	}
	out.ComparedSource = f.source
	return out, nil
}

// readSnapshot reads the pools from a snapshot, manifests or a cluster, as the flags name.
func (f *PoolFlags) readSnapshot(ctx context.Context, stderr io.Writer) (impact.PoolSnapshot, error) {
	switch {
	case f.snapshot != "":
		file, err := os.Open(f.snapshot)
		if err != nil {
			return impact.PoolSnapshot{}, err
		}
		defer file.Close()
		out, err := impact.Decode(file)
		if err != nil {
			return out, fmt.Errorf("%s: %w", f.snapshot, err)
		}
		return out, nil
	case f.manifests == "":
		return f.kube.Read(ctx)
	}
	var settings ClusterFile
	if f.cluster != "" {
		var err error
		if settings, err = ReadClusterFile(f.cluster, nil); err != nil {
			return impact.PoolSnapshot{}, err
		}
		settings.PrintWarnings(stderr)
	}
	m := manifests{settings: settings, stderr: stderr, seen: map[string]string{}}
	m.snapshot.Namespace = f.kube.namespace
	if ns := settings.Settings.Namespace; ns != "" {
		m.snapshot.Namespace = ns
	}
	return m.readManifests(f.manifests)
}

// manifests collects pools from files.
type manifests struct {
	settings ClusterFile
	stderr   io.Writer
	snapshot impact.PoolSnapshot
	key      string
	seen     map[string]string // the file of each pool
}

func (m *manifests) readManifests(dir string) (impact.PoolSnapshot, error) {
	in := m.settings.Settings
	if in.IgnitionVersion == render.DefaultIgnitionVersion {
		in.IgnitionVersion = ""
	}
	settings := impact.RedactSettings(in, m.settings.Cluster.Server)
	m.key = settings.Key()
	m.snapshot.Settings = map[string]impact.Settings{m.key: settings}
	var errs []error
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return m.snapshot, err
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) && path != dir {
			return err
		}
		if !d.Type().IsRegular() && path != dir {
			cli.Warn(m.stderr, fmt.Errorf("%s: is not a regular file, skipped", path))
			return nil
		}
		errs = append(errs, m.readFile(path))
		return nil
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return m.snapshot, err
	}
	if len(m.snapshot.Pools) == 0 {
		return m.snapshot, fmt.Errorf("%s: contains no MachineDeployment", dir)
	}
	return m.snapshot, nil
}

// readFile reads all documents of a file.
func (m *manifests) readFile(path string) error {
	b, err := File(path, nil)
	if err != nil {
		return err
	}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(b)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = m.readDocument(doc, fmt.Sprintf("%s, document %d", path, n))
		}
		if err != nil {
			return fmt.Errorf("%s: document %d: %w", path, n, err)
		}
	}
}

// readDocument reads a document if it is a known kind. Other documents can be anything, such as
// templates that are invalid YAML.
func (m *manifests) readDocument(doc []byte, place string) error {
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &head); err != nil {
		if bytes.Contains(doc, []byte("MachineDeployment")) {
			return fmt.Errorf("is invalid YAML, and names a MachineDeployment: render templates first: %w", redactYAMLError(err))
		}
		return nil
	}
	switch {
	case head.Kind == "List" || head.Kind == "MachineDeploymentList":
		var list struct {
			Items []runtime.RawExtension `json:"items"`
		}
		if err := yaml.Unmarshal(doc, &list); err != nil {
			return redactYAMLError(err)
		}
		for i, item := range list.Items {
			if err := m.readDocument(item.Raw, fmt.Sprintf("%s, item %d", place, i)); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
	case head.Kind == "MachineDeployment" && head.APIVersion == cluster.GroupVersion.String():
		md := &cluster.MachineDeployment{}
		if err := yaml.Unmarshal(doc, md); err != nil {
			return redactYAMLError(err)
		}
		return m.addPool(md, place)
	case head.Kind == "ProfileSource" && strings.HasPrefix(head.APIVersion, api.GroupVersion.Group+"/"):
		ps := &api.ProfileSource{}
		if err := yaml.Unmarshal(doc, ps); err != nil {
			return redactYAMLError(err)
		}
		m.snapshot.Sources = append(m.snapshot.Sources, impact.Source{Name: ps.Name, Waves: ps.HasWaves(), Windows: windows.SummarizeFor(ps, api.WindowReplace)})
	}
	return nil
}

// redactYAMLError reduces a YAML error to its first line: other lines can quote the manifest,
// which may contain a credential (security.md 15).
func redactYAMLError(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	if before, _, found := strings.Cut(line, "cannot unmarshal"); found {
		line = before + "a value is of the wrong type"
	}
	return errors.New(line)
}

func (m *manifests) addPool(md *cluster.MachineDeployment, place string) error {
	md.Namespace = cmp.Or(md.Namespace, "default")
	name := md.Namespace + "/" + md.Name
	if other, ok := m.seen[name]; ok {
		return fmt.Errorf("MachineDeployment %s is also in %s: name a folder with the pools of a single cluster", name, other)
	}
	m.seen[name] = place
	if md.Annotations[api.AnnotationOSP] == "" {
		// The same default as in the webhook. Other problems of the pool are reported when it is
		// used.
		if profile, err := render.DefaultProfile(md); err == nil {
			if md.Annotations == nil {
				md.Annotations = map[string]string{}
			}
			md.Annotations[api.AnnotationOSP] = profile
		}
	}
	m.snapshot.Pools = append(m.snapshot.Pools, impact.NewPool(md, m.key, m.settings.DecodePool))
	return nil
}

// SetDefault uses the pools of the configuration if no flag names others.
func (f *PoolFlags) SetDefault(d Defaults) {
	if f.manifests == "" && !f.kube.IsSet() && f.snapshot == "" {
		f.manifests = d.Pools
	}
}

// PoolsByProfile groups the pools below a folder by the profile that they name.
func PoolsByProfile(ctx context.Context, folder string, stderr io.Writer) (map[string][]string, error) {
	of := PoolFlags{manifests: folder}
	read, err := of.readSnapshot(ctx, stderr)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, p := range read.Pools {
		name := p.Annotations[api.AnnotationOSP]
		out[name] = append(out[name], redact.PrintableLine(p.Name()))
	}
	return out, nil
}
