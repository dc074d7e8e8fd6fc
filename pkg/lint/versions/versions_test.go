package versions_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/versions"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// repository is a work tree whose branch main holds the releases of osp-a that
// history lists, and osp-b.
type repository struct{ *gittest.Repo }

func newRepository(t *testing.T) repository {
	t.Helper()
	r := repository{gittest.New(t)}
	r.write("osp-b", "v1.0.0", "b")
	for _, release := range []struct{ version, content string }{{"v1.0.0", "one"}, {"v1.1.0", "two"}, {"v1.2.0", "three"}} {
		r.write("osp-a", release.version, release.content)
		r.Commit()
	}
	r.Git("checkout", "-q", "-b", "change")
	return r
}

func text(name, version, content string) string {
	return fmt.Sprintf(`apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata:
  name: %s
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: %s
  provisioningUtility: cloud-init
  supportedCloudProviders:
    - name: aws
  bootstrapConfig:
    files:
      - path: /etc/x
        content:
          inline:
            data: %s
  provisioningConfig: {}
`, name, version, content)
}

func (r repository) write(name, version, content string) {
	r.T.Helper()
	r.Write("profiles/"+name+".yaml", text(name, version, content))
}

// documents are the profiles of a folder or file as they lie there.
func documents(t *testing.T, path string) []profile.Document {
	t.Helper()
	var out []profile.Document
	err := filepath.WalkDir(path, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		docs, err := profile.Decode(path, b)
		if err == nil { // what cannot be read is for others to say
			out = append(out, docs...)
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return out
}

// TestFindings lists what is found after a change of the work tree, as
// "rule path:line: message; fix".
func TestFindings(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(r repository)
		path   string // the path to lint; "" is profiles
		want   []string
	}{
		"nothing":                 {change: func(repository) {}},
		"a new version":           {change: func(r repository) { r.write("osp-a", "v1.3.0", "four") }},
		"a comment is no content": {change: func(r repository) { r.Write("profiles/osp-a.yaml", "# new\n"+text("osp-a", "v1.2.0", "three")) }},
		"a file that moved": {change: func(r repository) {
			r.Write("profiles/osp-a.yaml", "")
			r.Write("profiles/sub/a.yaml", text("osp-a", "v1.2.0", "three"))
		}},
		"a new profile":                      {change: func(r repository) { r.write("osp-c", "v1.0.0", "c") }},
		"an older release kept beside it":    {change: func(r repository) { r.Write("profiles/old.yaml", text("osp-a", "v1.1.0", "two")) }},
		"gone, and not among what is linted": {change: func(r repository) { r.Write("profiles/osp-a.yaml", "") }, path: "profiles/osp-b.yaml"},
		"content without a version": {change: func(r repository) { r.write("osp-a", "v1.2.0", "four") }, want: []string{
			`version-not-changed profiles/osp-a.yaml:8: the content of profile "osp-a" changed, but its version is still v1.2.0, which has the content of commit HEX; write version: v1.2.1`}},
		"a version of an earlier commit": {change: func(r repository) { r.write("osp-a", "v1.1.0", "four") }, want: []string{
			`version-reused profiles/osp-a.yaml:8: version v1.1.0 of profile "osp-a" has other content since commit HEX; write version: v1.2.1`}},
		"back to an earlier release": {change: func(r repository) { r.write("osp-a", "v1.1.0", "two") }, want: []string{
			`rollback profiles/osp-a.yaml:8: profile "osp-a" is rolled back from v1.2.0 to v1.1.0, the content of commit HEX; `}},
		"backwards to what never was": {change: func(r repository) { r.write("osp-a", "v1.1.5", "two") }, want: []string{
			`version-backwards profiles/osp-a.yaml:8: the version of profile "osp-a" decreases from v1.2.0 to v1.1.5, which is not an earlier release of it; write version: v1.2.1`}},
		"to a pre-release": {change: func(r repository) { r.write("osp-a", "v1.3.0-rc.1", "two") }, want: []string{
			`version-backwards profiles/osp-a.yaml:8: the version of profile "osp-a" decreases from v1.2.0 to v1.3.0-rc.1, which is not an earlier release of it; write version: v1.3.0`}},
		"removed": {change: func(r repository) { r.Write("profiles/osp-a.yaml", "") }, want: []string{
			`profile-removed profiles/osp-a.yaml:0: profile "osp-a" was removed: its pools stay at v1.2.0, and new pools that name it are rejected; `}},
		"emptied": {change: func(r repository) { r.Write("profiles/osp-a.yaml", "# osp-a was here\n") }, want: []string{
			`profile-removed profiles/osp-a.yaml:0: profile "osp-a" was removed: its pools stay at v1.2.0, and new pools that name it are rejected; `}},
		"another kind in its place": {change: func(r repository) {
			r.Write("profiles/osp-a.yaml", "apiVersion: gitops.k8c.io/v1alpha1\nkind: ProfileSource\n")
		}, want: []string{
			`profile-removed profiles/osp-a.yaml:0: profile "osp-a" was removed: its pools stay at v1.2.0, and new pools that name it are rejected; `}},
		"a file that cannot be read is not gone": {change: func(r repository) { r.Write("profiles/osp-a.yaml", "kind: [\n") }},
		"renamed, in the same file": {change: func(r repository) { r.Write("profiles/osp-a.yaml", text("osp-z", "v1.3.0", "four")) }, want: []string{
			`profile-renamed profiles/osp-a.yaml:4: profile "osp-a" was renamed to "osp-z": pools that name "osp-a" do not get this change; restore profile "osp-a" until the annotation k8c.io/operating-system-profile of its pools names "osp-z"`}},
		"renamed, with the same content": {change: func(r repository) { r.Write("profiles/osp-a.yaml", ""); r.write("osp-z", "v1.2.0", "three") }, want: []string{
			`profile-renamed profiles/osp-z.yaml:4: profile "osp-a" was renamed to "osp-z": pools that name "osp-a" do not get this change; restore profile "osp-a" until the annotation k8c.io/operating-system-profile of its pools names "osp-z"`}},
		"two become one object": {change: func(r repository) {
			r.write("osp-x", "v1.0.0-v2.0.0", "x")
			r.write("osp-x-v1.0.0", "v2.0.0", "y")
		}, want: []string{
			`name-collision profiles/osp-x.yaml:4: profile "osp-x" v1.0.0-v2.0.0 would become the object osp-x-v1.0.0-v2.0.0, which is that of profile "osp-x-v1.0.0" v2.0.0; give the profile another name`}},
		"the branch is behind, and is not to blame": {change: func(r repository) { r.onMain("osp-a", "v1.3.0", "four"); r.write("osp-b", "v1.1.0", "bb") }},
		"the branch is behind: its version is taken": {change: func(r repository) { r.onMain("osp-a", "v1.3.0", "four"); r.write("osp-a", "v1.3.0", "five") }, want: []string{
			`version-reused profiles/osp-a.yaml:8: version v1.3.0 of profile "osp-a" has other content since commit HEX; write version: v1.3.1`}},
		"the branch is behind: its version is too low": {change: func(r repository) { r.onMain("osp-a", "v2.0.0", "four"); r.write("osp-a", "v1.3.0", "five") }, want: []string{
			`version-backwards profiles/osp-a.yaml:8: profile "osp-a" gets version v1.3.0, but main now has v2.0.0; rebase, and write version: v2.0.1`}},
		"a folder that is new": {change: func(r repository) { r.Write("more/osp-c.yaml", text("osp-c", "v1.0.0", "c")) }, path: "more"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			tt.change(r)
			path := tt.path
			if path == "" {
				path = "profiles"
			}
			var got []string
			for _, f := range find(t, r, "main", path) {
				if !slices.ContainsFunc(lint.Rules(), func(r lint.Rule) bool { return r.Name == f.Rule && r.Severity == f.Severity }) {
					t.Errorf("rule %s with severity %s is not described", f.Rule, f.Severity)
				}
				at, err := filepath.Rel(r.Dir, f.Path)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s %s:%d: %s; %s", f.Rule, at, f.Line, commits(f.Message), f.Fix))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// onMain makes a commit on main that the branch does not have.
func (r repository) onMain(name, version, content string) {
	r.Git("checkout", "-q", "main")
	r.write(name, version, content)
	r.Commit()
	r.Git("checkout", "-q", "change")
}

// commits replaces the ids of commits.
func commits(s string) string {
	words := strings.Fields(s)
	for i := range words {
		if i > 0 && words[i-1] == "commit" {
			words[i] = "HEX"
		}
	}
	return strings.Join(words, " ")
}

func find(t *testing.T, r repository, revision, path string) []lint.Finding {
	t.Helper()
	full := filepath.Join(r.Dir, path)
	c, err := versions.ReadBase(t.Context(), new(catalog.Indexer), []string{full}, revision)
	if err != nil {
		t.Fatal(err)
	}
	c.Documents = documents(t, full)
	c.Broken = func(name string) bool {
		b, err := os.ReadFile(name)
		if err != nil {
			return false // gone
		}
		_, err = profile.Decode(name, b)
		return err != nil
	}
	return lint.SortAndCompact(c.Findings())
}

// TestRemovedInUse: a removed profile is a warning, with the pools that name it; if the pools
// are known and none names it, it is a note.
func TestRemovedInUse(t *testing.T) {
	r := newRepository(t)
	r.Write("profiles/osp-a.yaml", "")
	for name, tt := range map[string]struct {
		pools    func(string) []string
		severity lint.Severity
		want     string
	}{
		"nothing is known of pools": {nil, lint.SeverityWarning, "new pools that name it are rejected"},
		"one has it":                {func(string) []string { return []string{"shop/web"} }, lint.SeverityWarning, "; it is named by shop/web"},
		"many have it":              {func(string) []string { return strings.Split("a b c d e f g", " ") }, lint.SeverityWarning, "; it is named by a, b, c, d, e, 2 more"},
		"another is in use": {func(profile string) []string {
			if profile == "osp-b" {
				return []string{"shop/web"}
			}
			return nil
		}, lint.SeverityNote, "; no pool that is known here names it"},
	} {
		c, err := versions.ReadBase(t.Context(), new(catalog.Indexer), []string{r.Dir}, "main")
		if err != nil {
			t.Fatal(err)
		}
		c.Documents, c.Pools = documents(t, r.Dir), tt.pools
		got := c.Findings()
		if len(got) != 1 || got[0].Rule != lint.RuleRemoved || got[0].Severity != tt.severity || !strings.HasSuffix(got[0].Message, tt.want) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestShallow: a clone without history says so, and compares with what it has.
func TestShallow(t *testing.T) {
	r := newRepository(t)
	clone := repository{&gittest.Repo{T: t, Dir: filepath.Join(t.TempDir(), "clone")}}
	r.Git("clone", "-q", "--depth", "1", "file://"+r.Dir, clone.Dir)
	clone.write("osp-a", "v1.2.0", "four")
	var got []string
	for _, f := range find(t, clone, "HEAD", "profiles") {
		got = append(got, f.Rule)
	}
	if diff := cmp.Diff([]string{lint.RuleNoHistory, lint.RuleNotChanged}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNoBase: what cannot be compared is an error that says why.
func TestNoBase(t *testing.T) {
	r := newRepository(t)
	outside := t.TempDir()
	for name, tt := range map[string]struct {
		paths    []string
		revision string
		want     string
	}{
		"no such revision":             {[]string{r.Dir}, "nowhere", `reading base "nowhere"`},
		"no such revision, nor folder": {[]string{filepath.Join(r.Dir, "new")}, "nowhere", `reading base "nowhere"`},
		"no repository":                {[]string{outside}, "main", "is in no Git repository"},
		"two repositories":             {[]string{r.Dir, newRepository(t).Dir}, "main", "are in different repositories"},
	} {
		if _, err := versions.ReadBase(t.Context(), new(catalog.Indexer), tt.paths, tt.revision); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

// TestOverlayOnBuiltin: an overlay that changes needs a version of its own, also when its
// base is a built-in profile; and what the cluster would have refused has had none.
func TestOverlayOnBuiltin(t *testing.T) {
	builtin := &source.Embedded{FS: fstest.MapFS{"osp-builtin.yaml": {Data: []byte(text("osp-builtin", "v1.0.0", "built in"))}}}
	overlayFile := func(content string) string {
		return "apiVersion: gitops.k8c.io/v1alpha1\nkind: ProfileOverlay\nmetadata: {name: osp-own}\nspec:\n  version: v1.0.0\n" +
			"  from: {profile: osp-builtin, version: v1.0.0}\n  bootstrapConfig: {files: {add: [{path: /etc/own, content: {inline: {data: " + content + "}}}]}}\n"
	}
	r := newRepository(t)
	r.Write("profiles/own.yaml", overlayFile("one"))
	r.Commit()
	for name, tt := range map[string]struct {
		check catalog.Check
		want  []string
	}{
		"a cluster has it":     {nil, []string{lint.RuleNotChanged}},
		"a cluster refuses it": {func(profile.Document) error { return errors.New("no") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := versions.ReadBase(t.Context(), &catalog.Indexer{Builtin: builtin, Check: tt.check}, []string{r.Dir}, "change")
			if err != nil {
				t.Fatal(err)
			}
			in, err := profile.DecodeFile("profiles/own.yaml", []byte(overlayFile("two")))
			if err != nil {
				t.Fatal(err)
			}
			c.Documents, _, err = overlay.Assemble(t.Context(), []profile.Contents{in}, func(ctx context.Context, o profile.Overlay) (profile.Document, error) {
				return (&catalog.Indexer{Builtin: builtin}).Base(ctx, &source.Snapshot{}, o.Spec.From)
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range c.Findings() {
				if f.Profile == "osp-own" {
					got = append(got, f.Rule)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
