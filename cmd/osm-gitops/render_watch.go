package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// How files are watched. Editors write in several steps: a change is rendered after
// quiet, but no later than patience after the first step.
const (
	renderQuiet    = 100 * time.Millisecond
	renderPatience = 500 * time.Millisecond
	// renderLook is when folders are looked for again that were not there.
	renderLook = 2 * time.Second
)

func (f renderFlags) checkWatch() error {
	const hint = "osm-gitops render --watch --profile FILE --machine-deployment FILE --cluster FILE"
	switch {
	case !f.watch:
		return nil
	case f.repo.location != "":
		return misusef(hint, "--watch is for files: commits, which --repo reads, do not change")
	case slices.Contains([]string{f.profile, f.machineDeployment, f.cluster}, "-"):
		return misusef(hint, "--watch is for files, and cannot read standard input again")
	case strings.HasPrefix(f.output, toFolder):
		return misusef("-o osc, -o bootstrap or -o provisioning", "--watch shows differences of one document, and writes no folder")
	}
	return nil
}

// watchRender renders whenever one of the files changes, and shows what that changed,
// until the context ends. It renders with placeholders: what is shown all day long on
// a screen holds no credential.
func watchRender(ctx context.Context, flags renderFlags, stdout, stderr io.Writer) error {
	w, err := watchFiles(flags)
	if err != nil {
		return err
	}
	defer w.close()
	r := rerender{flags: flags, engine: render.NewEngine(), stdout: stdout, stderr: stderr}
	if err := r.once(ctx); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "osm-gitops: watching, with placeholders for credentials; an interrupt (Ctrl-C) ends it")
	for w.wait(ctx) {
		if err := r.once(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rerender shows what a rendering has changed.
type rerender struct {
	flags          renderFlags
	engine         *render.Engine
	stdout, stderr io.Writer
	last           []byte // nil before the first
	said           string // on standard error
	broken         bool
}

// once renders. The error is that of writing: one in the files is shown, and mended
// by the next change.
func (r *rerender) once(ctx context.Context) error {
	var said bytes.Buffer
	out, err := r.render(ctx, &said)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end, not a mistake
	}
	if err != nil {
		report(&said, err)
	}
	if text := said.String(); text != r.said {
		r.said = text
		if _, err := io.WriteString(r.stderr, text); err != nil {
			return err
		}
	}
	if err != nil {
		r.broken = true
		return nil //nolint:nilerr // it was told above, and the next save may mend it
	}
	was := r.last
	r.last = out
	switch {
	case was == nil:
		_, err = r.stdout.Write(out)
	case !bytes.Equal(was, out):
		_, err = r.stdout.Write(diff.Diff("before", was, "after", out))
	case r.broken:
		fmt.Fprintln(r.stderr, "osm-gitops: renders again, to the same as before")
	}
	r.broken = false
	return err
}

func (r *rerender) render(ctx context.Context, stderr io.Writer) ([]byte, error) {
	in, err := readRenderInput(ctx, origin{flags: r.flags, engine: r.engine, stderr: stderr})
	if err != nil {
		return nil, err
	}
	in, _ = in.Split()
	if err := r.engine.Check(in.Profile); err != nil {
		return nil, err
	}
	out, err := r.engine.Render(in)
	if err != nil {
		return nil, err
	}
	for _, finding := range in.Profile.Findings() {
		warn(stderr, finding)
	}
	switch r.flags.output {
	case "bootstrap":
		return out.Bootstrap, nil
	case "provisioning":
		return out.Provisioning, nil
	}
	return oscYAML(in, out.OSC)
}

// watchedFiles tells of changes of files, however an editor makes them: it watches the
// folders in which they are, and those in which links to them end. The folder of a
// profile counts as a whole: an overlay's base is there.
type watchedFiles struct {
	kernel  *fsnotify.Watcher
	names   []string
	folders map[string]bool
	profile string // the folder of the profile's file
	changed chan struct{}
	tree    *source.Watch // of a folder of profiles, may be nil
}

func watchFiles(flags renderFlags) (*watchedFiles, error) {
	kernel, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching files: %w: run osm-gitops render without --watch", err)
	}
	w := &watchedFiles{kernel: kernel, folders: map[string]bool{}, changed: make(chan struct{}, 1)}
	for _, name := range []string{flags.profile, flags.machineDeployment, flags.cluster} {
		if name == "" {
			continue
		}
		full, err := filepath.Abs(name)
		if err != nil {
			w.close()
			return nil, fmt.Errorf("watching %s: %w", name, err)
		}
		if name == flags.profile && isFolder(full) {
			w.tree = source.Directory{Root: "/", Path: full}.Watch(func(context.Context) { w.tell() })
			continue
		}
		if name == flags.profile {
			w.profile = filepath.Dir(full)
		}
		w.names = append(w.names, full)
	}
	w.look()
	if len(w.folders) == 0 && w.tree == nil {
		w.close()
		return nil, errors.New("watching files: none of their folders can be watched: see the sysctl fs.inotify.max_user_watches")
	}
	return w, nil
}

func (w *watchedFiles) close() {
	if w.tree != nil {
		w.tree.Close()
	}
	_ = w.kernel.Close() // nothing is lost
}

// tell says that something has changed, unless that is said already.
func (w *watchedFiles) tell() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// look watches the folders in which the files are now, and reports whether they are
// others than before.
func (w *watchedFiles) look() bool {
	now := map[string]bool{}
	for _, name := range w.names {
		paths := []string{name}
		if real, err := filepath.EvalSymlinks(name); err == nil {
			paths = append(paths, real)
		}
		for _, path := range paths {
			if dir := filepath.Dir(path); w.kernel.Add(dir) == nil { // the same one twice is one
				now[dir] = true
			}
		}
	}
	for dir := range w.folders {
		if !now[dir] {
			_ = w.kernel.Remove(dir) // it may be gone
		}
	}
	news := !maps.Equal(now, w.folders)
	w.folders = now
	return news
}

// matters keeps out what no file of ours is made of: an editor's own files, and
// whatever else lives in those folders.
func (w *watchedFiles) matters(e fsnotify.Event) bool {
	base := filepath.Base(e.Name)
	switch {
	case w.folders[e.Name], strings.HasPrefix(base, ".."): // as Kubernetes swaps the files of a ConfigMap
		return true
	case e.Has(fsnotify.Chmod) && !e.Has(fsnotify.Write):
		return false
	case filepath.Dir(e.Name) == w.profile && isProfileFile(base) && !strings.HasPrefix(base, "."):
		return true
	}
	return slices.ContainsFunc(w.names, func(name string) bool {
		real, err := filepath.EvalSymlinks(name)
		return e.Name == name || err == nil && e.Name == real
	})
}

// wait returns true after a change, and false at the end.
func (w *watchedFiles) wait(ctx context.Context) bool {
	again := time.NewTicker(renderLook)
	defer again.Stop()
	var due <-chan time.Time
	var first time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-due:
			w.look()
			return true
		case <-again.C:
			if w.look() {
				w.tell()
			}
		case <-w.changed:
			due = time.After(0)
		case <-w.kernel.Errors: //nolint:errcheck // too many events at once, most likely
			w.tell()
		case e := <-w.kernel.Events:
			if !w.matters(e) {
				continue
			}
			if due == nil {
				first = time.Now()
			}
			due = time.After(max(0, min(renderQuiet, renderPatience-time.Since(first))))
		}
	}
}
