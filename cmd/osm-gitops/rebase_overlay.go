package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/load"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
	"github.com/osm-gitops/osm-gitops/pkg/profile/rebase"
	profileversion "github.com/osm-gitops/osm-gitops/pkg/profile/version"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// rebaseFlags are the flags of `osm-gitops rebase-overlay`.
type rebaseFlags struct {
	file, onto, repo, profile, version string

	write bool
}

func newRebaseOverlayCommand() *cobra.Command {
	var flags rebaseFlags
	cmd := &cobra.Command{
		Use:   "rebase-overlay FILE [--onto VERSION] [--repo DIR] [--write]",
		Short: "show the result of an overlay on a newer version of its base",
		Long: `Show the result of a ProfileOverlay on another version of its base: the difference
between the complete profile before and after, and conflicts as errors. A conflict is a
file that the overlay removes and the base no longer has, or one that both have changed.

The base is searched in the same places as for a ProfileSource: in the files of --repo, in
their history, then among the built-in profiles of this program. The default of --onto is
the newest version of the base.

With --write the file of the overlay names the new version of the base, and has a new
version itself: --version, or the next patch release. Nothing else in it changes.

The exit status is 0, or 1 if there are conflicts; then nothing is written.`,
		Example: "  osm-gitops rebase-overlay profiles/osp-ubuntu-motd.yaml\n  osm-gitops rebase-overlay profiles/osp-ubuntu-motd.yaml --onto v1.3.2 --write",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Misusef("osm-gitops rebase-overlay FILE", "one file is expected, found %d", len(args))
			}
			flags.file = args[0]
			return flags.check()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runRebaseOverlay(cmd.Context(), flags, cli.NewEscapingWriter(cmd.OutOrStdout(), ""), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&flags.onto, "onto", "", "new `VERSION` of the base; default the newest")
	cmd.Flags().StringVar(&flags.repo, "repo", "", "`DIR` with the profiles, a Git work tree or a folder in one; default the folder of FILE, then the work tree that it is in")
	cmd.Flags().StringVar(&flags.profile, "profile", "", "`NAME` of the overlay, if FILE contains several")
	cmd.Flags().StringVar(&flags.version, "version", "", "`VERSION` that --write gives to the overlay; default the next patch release")
	cmd.Flags().BoolVar(&flags.write, "write", false, "write the new versions into FILE")
	return cmd
}

func (f rebaseFlags) check() error {
	for _, v := range []struct{ name, value string }{{"--onto", f.onto}, {"--version", f.version}} {
		if v.value == "" {
			continue
		}
		if _, err := profileversion.Parse(v.value); err != nil {
			return cli.Misusef("osm-gitops rebase-overlay FILE "+v.name+" v1.2.3", "%s: %w", v.name, err)
		}
	}
	if f.version != "" && !f.write {
		return cli.Misusef("osm-gitops rebase-overlay FILE --write --version v1.2.3", "--version without --write")
	}
	if f.file == "-" {
		return cli.Misusef("osm-gitops rebase-overlay FILE", "the overlay's file cannot be standard input: its base is searched in the folder of the file")
	}
	return nil
}

func runRebaseOverlay(ctx context.Context, flags rebaseFlags, stdout, stderr io.Writer) error {
	data, err := load.File(flags.file, nil)
	if err != nil {
		return err
	}
	in, err := profile.DecodeFile(flags.file, data)
	if err != nil {
		return err
	}
	overlay, err := chooseOverlay(in.Overlays, flags)
	if err != nil {
		return err
	}
	r := rebasing{flags: flags, in: in, overlay: overlay}
	index := catalog.Indexer{Check: lint.TemplateCheck(render.NewEngine()), Builtin: catalog.Builtin()}
	if flags.repo != "" {
		r.bases.Index = index
		r.bases.Snapshot, err = load.Folder(ctx, flags.repo)
	} else {
		r.bases, err = load.BasesNextTo(ctx, flags.file, index, []profile.Overlay{overlay})
	}
	if err != nil {
		return err
	}
	onto, err := r.requestedOrNewestBase(ctx)
	if err != nil {
		return err
	}
	if onto.Version == overlay.Spec.From.Version {
		fmt.Fprintf(stderr, "osm-gitops: %s: %q is based on profile %q %s, which is the newest version\n", flags.file, overlay.Name, onto.Profile, onto.Version)
		return nil
	}
	now, err := r.printRebase(ctx, onto, stdout, stderr)
	if err != nil || !flags.write {
		return err
	}
	if overlay.Spec.From.Digest != "" {
		now.Version = onto.Version // without the mark of an edited file
		onto.Digest = profile.Digest(now)
	}
	return r.writeOverlay(data, onto, stderr)
}

// chooseOverlay selects the overlay in a file.
func chooseOverlay(overlays []profile.Overlay, flags rebaseFlags) (profile.Overlay, error) {
	var names []string
	var found []profile.Overlay
	for _, o := range overlays {
		names = append(names, o.Name+" "+o.Spec.Version)
		if flags.profile == "" || o.Name == flags.profile {
			found = append(found, o)
		}
	}
	switch {
	case len(overlays) == 0:
		return profile.Overlay{}, fmt.Errorf("%s: contains no ProfileOverlay", flags.file)
	case len(found) == 1:
		return found[0], nil
	case flags.profile == "":
		return profile.Overlay{}, cli.Misusef("osm-gitops rebase-overlay FILE --profile NAME", "%s: contains several overlays, %s: name one of them", flags.file, strings.Join(names, ", "))
	}
	return profile.Overlay{}, fmt.Errorf("%s: contains %d overlays with the name %q; there is %s", flags.file, len(found), flags.profile, strings.Join(names, ", "))
}

// rebasing moves one overlay to another version of its base.
type rebasing struct {
	flags   rebaseFlags
	in      profile.Contents
	overlay profile.Overlay
	bases   load.Bases
}

// requestedOrNewestBase returns the base version to move to.
func (r *rebasing) requestedOrNewestBase(ctx context.Context) (api.ProfileOverlayBase, error) {
	from := r.overlay.Spec.From
	if r.flags.onto != "" {
		return api.ProfileOverlayBase{Profile: from.Profile, Version: r.flags.onto, Builtin: from.Builtin}, nil
	}
	newer, ok, err := rebase.NewestBase(ctx, &r.bases.Index, r.bases.Snapshot, from)
	if err != nil {
		return newer, err
	}
	if !ok {
		return from, nil
	}
	return newer, nil
}

// printRebase prints the changes and returns the new base. The error lists conflicts.
func (r *rebasing) printRebase(ctx context.Context, onto api.ProfileOverlayBase, stdout, stderr io.Writer) (osm.OperatingSystemProfileSpec, error) {
	moved := r.overlay
	moved.Spec.From = onto
	now, err := r.bases.ResolveBase(ctx, r.in, moved)
	if err != nil {
		return now.Spec, err
	}
	return now.Spec, r.printRebasedProfileDiff(ctx, onto, now, stdout, stderr)
}

// printRebasedProfileDiff prints what the overlay's result gets from the new base. The error lists
// conflicts.
func (r *rebasing) printRebasedProfileDiff(ctx context.Context, onto api.ProfileOverlayBase, now profile.Document, stdout, stderr io.Writer) error {
	was, err := r.bases.ResolveBase(ctx, r.in, r.overlay)
	if _, ok := errors.AsType[*overlay.MissingBaseError](err); ok {
		// It was built into an earlier release, so the changes since then are unknown.
		cli.Warn(stderr, fmt.Errorf("%w; the changes of the base between %s and %s are not shown, only whether the overlay applies", err, r.overlay.Spec.From.Version, onto.Version))
		_, err := overlay.Apply(r.overlay, now)
		return err
	}
	if err != nil {
		return err
	}
	made, err := rebase.Compare(r.overlay, was, now)
	if err != nil {
		return err
	}
	if made.Now.Name != "" {
		if err := printDifference(stdout, made, onto); err != nil {
			return err
		}
	}
	if len(made.Conflicts) > 0 {
		return load.JoinProblems(made.Conflicts)
	}
	return r.bases.Index.Check(made.Now)
}

// printDifference prints the changes of the whole profile, with control characters escaped
// (security.md 28).
func printDifference(w io.Writer, made rebase.Result, onto api.ProfileOverlayBase) error {
	was, err := profileYAML(made.Was)
	if err != nil {
		return err
	}
	now, err := profileYAML(made.Now)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s %s", made.Was.Name, made.Was.Spec.Version)
	text := diff.Diff(name+", current", was, name+" on "+onto.Profile+" "+onto.Version, now)
	if _, rest, ok := bytes.Cut(text, []byte("\n")); ok { // omit the line that repeats both names
		text = rest
	}
	_, err = io.WriteString(w, redact.RemoveControlChars(string(text)))
	return err
}

// profileYAML encodes a profile as it would be applied.
func profileYAML(d profile.Document) ([]byte, error) {
	b, err := runnerlog.YAML(map[string]any{
		"apiVersion": osm.GroupVersion.String(), "kind": "OperatingSystemProfile",
		"metadata": map[string]string{"name": d.Name}, "spec": d.Spec,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding profile %q: %w", d.Name, err)
	}
	return b, nil
}

// writeOverlay writes the new versions into the overlay's file.
func (r *rebasing) writeOverlay(data []byte, onto api.ProfileOverlayBase, stderr io.Writer) error {
	version := r.flags.version
	if version == "" {
		v, err := profileversion.Parse(r.overlay.Spec.Version)
		if err != nil {
			return err
		}
		version = "v" + v.IncPatch().String()
	}
	out, err := rebase.WithVersions(data, r.overlay, version, onto)
	if err != nil {
		return err
	}
	if err := cli.ReplaceFile(r.flags.file, out); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "osm-gitops: %s: %q is now %s, on profile %q %s\n", r.flags.file, r.overlay.Name, version, onto.Profile, onto.Version)
	return nil
}
