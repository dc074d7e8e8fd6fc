package program

import (
	"io/fs"
	"os"
	"path/filepath"
)

// DependOn looks at every file below paths of the repository, so that go test takes no result from
// its cache when one has changed. go test sees what a test opens, but not what programs read that the
// test runs, such as go build. Before m.Run it sees nothing, so a call in TestMain has no effect.
func DependOn(paths ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	for _, path := range paths {
		err := filepath.WalkDir(filepath.Join(root, path), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				_, err = os.Stat(path)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
