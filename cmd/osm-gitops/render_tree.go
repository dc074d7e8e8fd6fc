package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// indexFile names every file of a tree with mode and size.
const indexFile = "index.txt"

// treeFile is a file to write below the folder, by its path in there.
type treeFile struct {
	path    string
	mode    fs.FileMode
	content []byte
	node    string // what the index says: the path on the node
	special string // what the mode has beyond permissions, which is not set here
}

// writeTree writes what lands on a node into a folder of its own:
//
//	osc.yaml                        the OperatingSystemConfig
//	bootstrap.user-data, bootstrap/ the first stage's document, and the node's files
//	provisioning.user-data, ...     the second's
//	index.txt                       each file with mode and size, and the units
//
// Paths come from a profile, whom nobody has to trust: nothing is written outside
// the folder.
func writeTree(dir string, osc []byte, out *render.Output, node *render.Node) (files int, err error) {
	var list []treeFile
	var index strings.Builder
	for _, s := range []struct {
		name     string
		document []byte
		stage    render.NodeStage
	}{{"bootstrap", out.Bootstrap, node.Bootstrap}, {"provisioning", out.Provisioning, node.Provisioning}} {
		stage, err := layout(s.name, s.stage.Files)
		if err != nil {
			return 0, err
		}
		describe(&index, s.name, stage, s.stage.Units)
		list = append(list, treeFile{path: s.name + ".user-data", mode: 0o600, content: s.document})
		list = append(list, stage...)
	}
	files = len(list) - 2
	list = append(list, treeFile{path: "osc.yaml", mode: 0o600, content: osc}, treeFile{path: indexFile, mode: 0o600, content: []byte(index.String())})
	root, err := emptyFolder(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	for _, stage := range []string{"bootstrap", "provisioning"} {
		if err := root.Mkdir(stage, 0o700); err != nil {
			return 0, fmt.Errorf("writing %s: %w", dir, err)
		}
	}
	for _, f := range list {
		if err := f.write(root); err != nil {
			return 0, fmt.Errorf("writing %s: %w", dir, err)
		}
	}
	return files, nil
}

// layout places a stage's files. Of those with one path the last stays, as on a
// node. A file in the place of another's folder is an error there, too.
func layout(stage string, files []render.NodeFile) ([]treeFile, error) {
	var list []treeFile
	at := map[string]int{}
	for _, f := range files {
		name := path.Clean("/" + f.Path)
		if name == "/" || strings.ContainsRune(name, 0) {
			return nil, fmt.Errorf("%s: %q is no path of a file", stage, f.Path)
		}
		file := treeFile{path: stage + name, mode: fs.FileMode(f.Mode & 0o777), content: []byte(f.Content), node: name}
		if f.Mode&^0o777 != 0 {
			file.special = fmt.Sprintf("%04o", f.Mode)
		}
		if i, ok := at[name]; ok {
			list[i] = file
			continue
		}
		at[name] = len(list)
		list = append(list, file)
	}
	for _, f := range list {
		for above := path.Dir(f.node); above != "/"; above = path.Dir(above) {
			if _, ok := at[above]; ok {
				return nil, fmt.Errorf("%s: %q cannot be written: %q is a file, too", stage, f.node, above)
			}
		}
	}
	return list, nil
}

// describe adds a stage to the index.
func describe(index *strings.Builder, stage string, files []treeFile, units []render.NodeUnit) {
	fmt.Fprintf(index, "%s: mode, bytes, path on the node\n", stage)
	for _, f := range files {
		mode := f.special
		if mode == "" {
			mode = fmt.Sprintf("%04o", f.mode)
		}
		fmt.Fprintf(index, "  %s %8d %s\n", mode, len(f.content), quotePath(f.node))
	}
	if len(units) > 0 {
		fmt.Fprintf(index, "%s: units\n", stage)
	}
	for _, u := range units {
		state := "present"
		switch {
		case u.Masked:
			state = "masked"
		case u.Enabled:
			state = "enabled"
		}
		fmt.Fprintf(index, "  %-8s %s\n", state, u.Name)
	}
}

// quotePath keeps a path on its line.
func quotePath(name string) string {
	if quoted := fmt.Sprintf("%q", name); quoted[1:len(quoted)-1] != name {
		return quoted
	}
	return name
}

// emptyFolder makes a folder that only its owner may enter, or takes one that is
// empty.
func emptyFolder(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	err = func() error {
		f, err := root.Open(".")
		if err != nil {
			return err
		}
		defer f.Close()
		if names, err := f.Readdirnames(1); !errors.Is(err, io.EOF) {
			return errors.Join(err, fmt.Errorf("it holds %q already: name a new folder, or an empty one", strings.Join(names, "")))
		}
		return f.Chmod(0o700)
	}()
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("writing into %s: %w", dir, err)
	}
	return root, nil
}

// write makes a file, and the folders above it.
func (f treeFile) write(root *os.Root) error {
	if err := root.MkdirAll(path.Dir(f.path), 0o700); err != nil {
		return err
	}
	if err := root.WriteFile(f.path, f.content, 0o600); err != nil {
		return err
	}
	return root.Chmod(f.path, f.mode)
}
