package main

import (
	"context"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/config"
	"github.com/osm-gitops/osm-gitops/pkg/lint/rulebook"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// defaults are what the configuration of a repository says where nothing is given. What
// it does not say is empty.
type defaults struct {
	// file is the configuration.
	file string
	// profiles and pools are folders, as seen from the working directory.
	profiles, pools string
}

// defaultsAt are those of the configuration that is found from a folder, or of a file.
func defaultsAt(folder, file string) (defaults, error) {
	if file == "" {
		found, err := config.Find(folder)
		if err != nil || found == "" {
			return defaults{}, err
		}
		file = relativeTo(".", found)
	}
	data, err := config.Read(file)
	if err != nil {
		return defaults{}, err
	}
	c, err := config.Parse(file, data, rulebook.All())
	if err != nil {
		return defaults{}, err
	}
	d := defaults{file: file}
	for value, into := range map[string]*string{c.Profiles: &d.profiles, c.Pools: &d.pools} {
		if value != "" {
			*into = filepath.Join(filepath.Dir(file), filepath.FromSlash(value))
		}
	}
	return d, nil
}

// within is a folder as seen from the top of the repository that a path is in, with
// forward slashes; "" where it is in none, or is the top.
func within(repo, folder string) (string, error) {
	full, err := filepath.Abs(repo)
	if err != nil {
		return "", err
	}
	top := source.TopOf(full)
	if top == "" || folder == "" {
		return "", nil
	}
	rel := filepath.ToSlash(relativeTo(top, folder))
	if rel == "." {
		return "", nil
	}
	return rel, nil
}

// setDefault takes the pools of the configuration where no others are named.
func (f *poolFlags) setDefault(d defaults) {
	if f.manifests == "" && f.kube.kubeconfig == "" && f.snapshot == "" {
		f.manifests = d.pools
	}
}

// onlyManifest is the one file with a manifest in a folder of pools.
func onlyManifest(folder string) (string, error) {
	var files []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	const usage = "osm-gitops render --machine-deployment FILE"
	switch len(files) {
	case 0:
		return "", misusef(usage, "%s: there is no file with a pool", folder)
	case 1:
		return files[0], nil
	}
	return "", misusef(usage, "--machine-deployment is missing: %s has several pools, %s", folder, strings.Join(files[:min(len(files), maxNamed)], ", "))
}

// maxNamed is how many files a message names.
const maxNamed = 10

// setDefaults takes the profiles and the pool of the configuration where none are named.
func (f *renderFlags) setDefaults() error {
	if f.machineDeployment != "" && (f.profile != "" || f.repo.location != "") {
		return nil
	}
	d, err := defaultsAt(".", "")
	if err != nil {
		return err
	}
	if f.machineDeployment == "" && d.pools != "" {
		if f.machineDeployment, err = onlyManifest(d.pools); err != nil {
			return err
		}
	}
	if f.profile == "" && f.repo.location == "" && d.profiles != "" {
		f.profile, f.orBuiltin = d.profiles, true
	}
	return nil
}

// poolsByProfile are the pools below a folder by the profile that they name.
func poolsByProfile(ctx context.Context, folder string, stderr io.Writer) (map[string][]string, error) {
	of := poolFlags{manifests: folder}
	read, err := of.read(ctx, stderr)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, p := range read.Pools {
		name := p.Annotations[api.AnnotationOSP]
		out[name] = append(out[name], redact.Clean(p.Name()))
	}
	return out, nil
}
