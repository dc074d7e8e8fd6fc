// Command assemble writes the profiles of this folder: each file of source/ with the parts that it
// names inserted. The names of sources end in .in, because a folder of profiles must contain no
// other .yaml files. It is run by make generate, in profiles/.
//
// In a source a line
//
//	data: "@part NAME..."
//
// becomes a literal block with the text of parts/NAME. Everything else is copied, so that a profile
// can be read, copied and compared like one written by hand.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "assemble:", err)
		os.Exit(1)
	}
}

// run assembles every profile below dir, and reports parts that none of them has.
func run(dir string) error {
	sources, err := filepath.Glob(filepath.Join(dir, "source", "*.yaml.in"))
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return fmt.Errorf("%s holds no source/*.yaml.in: run it in profiles/", dir)
	}
	parts := os.DirFS(filepath.Join(dir, "parts"))
	used := map[string]bool{}
	part := func(name string) (string, error) {
		used[name] = true
		f, err := parts.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		var b bytes.Buffer
		_, err = b.ReadFrom(f)
		return b.String(), err
	}
	var errs []error
	for _, source := range sources {
		text, err := os.ReadFile(source) //nolint:gosec // a file of this folder
		if err != nil {
			return err
		}
		out, err := assemble(string(text), part)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
			continue
		}
		header := "# Assembled from source/" + filepath.Base(source) + " and parts/: edit those, then run make generate.\n"
		if err := write(filepath.Join(dir, strings.TrimSuffix(filepath.Base(source), ".in")), header+out); err != nil {
			return err
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "parts", "*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if !used[filepath.Base(name)] {
			errs = append(errs, fmt.Errorf("%s: no source names it", name))
		}
	}
	return errors.Join(errs...)
}

// write leaves a file alone that holds the text already.
func write(path, text string) error {
	if have, err := os.ReadFile(path); err == nil && string(have) == text { //nolint:gosec // a file of this folder
		return nil
	}
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // the mode of files in Git
}

// partLine is a line to replace: its indentation, its key, the names of parts.
var partLine = regexp.MustCompile(`(?m)^( *)(\S+:) "@part ([^"]+)"$`)

// assemble puts the parts into a source.
func assemble(source string, part func(name string) (string, error)) (string, error) {
	var errs []error
	out := partLine.ReplaceAllStringFunc(source, func(line string) string {
		m := partLine.FindStringSubmatch(line)
		block := m[1] + m[2] + " |"
		for _, name := range strings.Fields(m[3]) {
			text, err := part(name)
			if err == nil && !strings.HasSuffix(text, "\n") {
				err = fmt.Errorf("part %s does not end with a line break", name)
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
			for l := range strings.Lines(text) {
				if l = strings.TrimRight(l, "\n"); l != "" {
					l = m[1] + "  " + l
				}
				block += "\n" + l
			}
		}
		return block
	})
	return out, errors.Join(errs...)
}
