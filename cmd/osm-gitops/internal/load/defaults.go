package load

import (
	"path/filepath"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Defaults are values from the configuration of a repository for flags that are not set. A
// value that it lacks is empty.
type Defaults struct {
	// file is the configuration.
	file string
	// Profiles and Pools are folders, as seen from the working directory.
	Profiles, Pools string
}

// DefaultsAt reads the configuration in a file, or the one found from a folder.
func DefaultsAt(folder, file string) (Defaults, error) {
	if file == "" {
		found, err := lint.FindConfig(folder)
		if err != nil || found == "" {
			return Defaults{}, err
		}
		file = RelativePathFrom(".", found)
	}
	data, err := lint.ReadConfig(file)
	if err != nil {
		return Defaults{}, err
	}
	c, err := lint.ParseConfig(file, data)
	if err != nil {
		return Defaults{}, err
	}
	d := Defaults{file: file}
	for value, into := range map[string]*string{c.Profiles: &d.Profiles, c.Pools: &d.Pools} {
		if value != "" {
			*into = filepath.Join(filepath.Dir(file), filepath.FromSlash(value))
		}
	}
	return d, nil
}

// PathInRepository returns a folder relative to the root of the repository that contains a path, with
// forward slashes. It is "" outside a repository and for the root.
func PathInRepository(repo, folder string) (string, error) {
	full, err := filepath.Abs(repo)
	if err != nil {
		return "", err
	}
	top := source.FindWorktree(full)
	if top == "" || folder == "" {
		return "", nil
	}
	rel := filepath.ToSlash(RelativePathFrom(top, folder))
	if rel == "." {
		return "", nil
	}
	return rel, nil
}

// RelativePathFrom returns a path relative to a folder, or the path itself if that is impossible.
func RelativePathFrom(folder, path string) string {
	from, err := filepath.Abs(folder)
	if err != nil {
		return path
	}
	to, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(from, to)
	if err != nil {
		return path
	}
	return rel
}
