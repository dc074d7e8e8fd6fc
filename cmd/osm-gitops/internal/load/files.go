package load

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// maxInputBytes bounds each file a command reads.
const maxInputBytes = 2 << 20 // 2 MiB

// profileWithoutCommit makes a profile of a file outside a known repository.
func profileWithoutCommit(doc profile.Document) render.Profile {
	return render.Profile{
		Spec: doc.Spec, Object: doc.Name, Digest: doc.Digest,
		Provenance: render.Provenance{Profile: doc.Name, Version: doc.Spec.Version},
		File:       doc.Path, Lines: doc.Line, FileOf: doc.FileOf,
	}
}

// selectProfile selects the pool's profile from a file with several.
func selectProfile(docs []profile.Document, path, name string) (profile.Document, error) {
	if len(docs) == 1 {
		return docs[0], nil
	}
	var names []string
	for _, d := range docs {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	return profile.Document{}, fmt.Errorf("%s: contains the profiles %s, but the MachineDeployment's annotation %s names %q",
		path, strings.Join(names, ", "), api.AnnotationOSP, name)
}

func MachineDeployment(path string, stdin io.Reader) (*cluster.MachineDeployment, error) {
	b, err := File(path, stdin)
	if err != nil {
		return nil, err
	}
	md := &cluster.MachineDeployment{}
	if err := yaml.Unmarshal(b, md); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if md.Kind != "MachineDeployment" || md.APIVersion != cluster.GroupVersion.String() {
		return nil, fmt.Errorf("%s: is not a MachineDeployment: found apiVersion %q and kind %q, expected %q and %q",
			path, md.APIVersion, md.Kind, cluster.GroupVersion.String(), "MachineDeployment")
	}
	return md, nil
}

// File reads a file, or standard input for "-".
func File(path string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	// One byte more than allowed shows that the input is too large.
	b, err := io.ReadAll(io.LimitReader(from, maxInputBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(b) > maxInputBytes {
		return nil, fmt.Errorf("%s: is larger than %d bytes", path, maxInputBytes)
	}
	return b, nil
}

// NewProfileFileWithRepoError is the error for a profile file together with --repo: only an overlay can
// be a file, whose base is in the repository.
func NewProfileFileWithRepoError(file string) error {
	return cli.Misusef("osm-gitops render --repo PATH-or-URL --path FOLDER --profile NAME", "with --repo, --profile is the name of a profile in the repository, not a file: %q", file)
}

// IsProfileFile reports whether a name is that of a file with profiles.
func IsProfileFile(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}
