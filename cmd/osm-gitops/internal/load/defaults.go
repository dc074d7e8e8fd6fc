package load

import (
	"path/filepath"

	"github.com/osm-gitops/osm-gitops/pkg/lint/config"
	"github.com/osm-gitops/osm-gitops/pkg/lint/rulebook"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Defaults are what the configuration of a repository says where nothing is given. What
// it does not say is empty.
type Defaults struct {
	// file is the configuration.
	file string
	// Profiles and Pools are folders, as seen from the working directory.
	Profiles, Pools string
}

// DefaultsAt are those of the configuration that is found from a folder, or of a file.
func DefaultsAt(folder, file string) (Defaults, error) {
	if file == "" {
		found, err := config.Find(folder)
		if err != nil || found == "" {
			return Defaults{}, err
		}
		file = RelativeTo(".", found)
	}
	data, err := config.Read(file)
	if err != nil {
		return Defaults{}, err
	}
	c, err := config.Parse(file, data, rulebook.All())
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

// Within is a folder as seen from the top of the repository that a path is in, with
// forward slashes; "" where it is in none, or is the top.
func Within(repo, folder string) (string, error) {
	full, err := filepath.Abs(repo)
	if err != nil {
		return "", err
	}
	top := source.TopOf(full)
	if top == "" || folder == "" {
		return "", nil
	}
	rel := filepath.ToSlash(RelativeTo(top, folder))
	if rel == "." {
		return "", nil
	}
	return rel, nil
}

// RelativeTo is a path as seen from a folder, the path itself where there is no way.
func RelativeTo(folder, path string) string {
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
