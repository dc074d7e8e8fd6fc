package scaffold

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"

	"github.com/osm-gitops/osm-gitops/examples/ci"
)

// Hosts of repositories with supported CI.
const (
	GitHub = "github"
	GitLab = "gitlab"
	// NoCI is a repository without generated CI.
	NoCI = "none"
)

// Repository has the inputs of the generated files.
type Repository struct {
	// Files are its content by path: profiles, pools.
	Files map[string][]byte
	// Readme is the part of the README about the origin of the repository, in Markdown.
	Readme string
	// Host is GitHub, GitLab or NoCI.
	Host string
	// URL from which controllers fetch it; empty if it is not known yet.
	URL string
	// Namespace of the controller.
	Namespace string
	// Owners of profiles, as in a CODEOWNERS file; empty if not known.
	Owners string
	// Version of osm-gitops for CI, such as v1.2.3; other values are left for the user to set.
	Version string
}

// unknownURL is the URL in a ProfileSource until the user sets it.
const unknownURL = "https://git.example.com/SET/THIS.git"

// An owner for GitHub is @user, @organization/team or an email address, according to
// https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners.
// GitLab also accepts nested groups and @@role, according to
// https://docs.gitlab.com/user/project/codeowners/reference/. Both ignore a line with any
// other owner, so that no approval is required.
var (
	address     = regexp.MustCompile(`^[^@\s#,]+@[^@\s#,]+\.[^@\s#,]+$`)
	githubOwner = regexp.MustCompile(`^@[A-Za-z0-9][\w-]*(/[A-Za-z0-9][\w.-]*)?$`)
	gitlabOwner = regexp.MustCompile(`^@@?[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)*$`)
)

// FirstInvalidOwner returns the first of the owners, separated by spaces, that the host would
// ignore; "" if there is none.
func FirstInvalidOwner(host, owners string) string {
	name := gitlabOwner
	if host == GitHub {
		name = githubOwner
	}
	for _, owner := range strings.Fields(owners) {
		if !name.MatchString(owner) && !address.MatchString(owner) {
			return owner
		}
	}
	return ""
}

// release is a version that can be downloaded by name.
var release = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)

// All returns every file by path: the content of the repository, and the generated files.
func (r Repository) All() (map[string][]byte, error) {
	out := maps.Clone(r.Files)
	source, err := r.profileSourceManifest()
	if err != nil {
		return nil, err
	}
	out["deploy/profilesource.yaml"] = source
	out["README.md"] = r.readme()
	out["CODEOWNERS"] = r.owners()
	out[".osm-gitops.yaml"] = r.config()
	if err := r.addCIAndToolConfigs(out); err != nil {
		return nil, err
	}
	return out, nil
}

// config returns the configuration file, which names the folders of profiles and pools.
func (r Repository) config() []byte {
	text := ""
	if r.has("profiles/") {
		text = "profiles: profiles\n"
	}
	if r.has("pools/") {
		text += "pools: pools\n"
	}
	if text != "" {
		text = "# What osm-gitops lint, diff, bundle and render take where nothing else is named.\n" + text + "\n"
	}
	return []byte(text + lintConfig)
}

const lintConfig = `# How osm-gitops lint checks this repository. A finding that is right as it is gets a
# suppression with its reason:
#
#   lint:
#     suppress:
#     - rule: http-download
#       path: profiles/osp-example.yaml
#       reason: why this is right here
#       until: 2027-03-31
lint:
  shellcheck: auto
`

func (r Repository) addCIAndToolConfigs(out map[string][]byte) error {
	workflow := map[string]struct{ from, to string }{
		GitHub: {"github.yaml", ".github/workflows/profiles.yaml"},
		GitLab: {"gitlab-ci.yml", ".gitlab-ci.yml"},
	}
	w, ok := workflow[r.Host]
	if !ok {
		return nil
	}
	for from, to := range map[string]string{w.from: w.to, "pre-commit-config.yaml": ".pre-commit-config.yaml", "renovate.json": "renovate.json"} {
		text, err := ci.Files.ReadFile(from)
		if err != nil {
			return fmt.Errorf("writing %s: %w", to, err)
		}
		if from == w.from && release.MatchString(r.Version) {
			text = []byte(strings.Replace(string(text), noVersion, "OSM_GITOPS_VERSION: "+r.Version, 1))
		}
		out[to] = text
	}
	return nil
}

// profileSourceManifest returns the ProfileSource that follows the repository.
func (r Repository) profileSourceManifest() ([]byte, error) {
	url, comment := r.URL, ""
	if url == "" {
		url, comment = unknownURL, "# SET spec.git.url to where this repository is.\n"
	}
	b, err := yaml.Marshal(map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "ProfileSource",
		"metadata": map[string]any{"name": "platform", "namespace": r.Namespace},
		"spec": map[string]any{
			"git":  map[string]any{"url": url, "ref": map[string]any{"branch": "main"}},
			"path": "profiles", "interval": "1m",
		},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the ProfileSource: %w", err)
	}
	return append([]byte("# Has the controller follow branch main of this repository. For a private one, name a\n"+
		"# Secret with its credentials in spec.git.secretRef.\n"+comment), b...), nil
}

func (r Repository) owners() []byte {
	const why = "# Who must approve a change. Whoever can merge profiles is root on every new machine.\n"
	owners, comment := r.Owners, ""
	if owners == "" {
		owners, comment = "@example/platform", "# "
	}
	text := why
	if comment != "" {
		text += "# SET the team, take away the #, and protect the branch main so that owners are asked.\n"
	}
	// Protect the profiles, the configuration of checks, and the owners file itself.
	paths := []string{"/profiles/", "/.osm-gitops.yaml", "/CODEOWNERS"}
	switch r.Host {
	case GitHub:
		paths = append(paths, "/.github/")
	case GitLab:
		paths = append(paths, "/.gitlab-ci.yml")
	}
	for _, path := range paths {
		text += comment + path + " " + owners + "\n"
	}
	return []byte(text)
}

// RemainingSettings lists what the user still has to set in the files of a repository.
func RemainingSettings(files map[string][]byte) []string {
	var out []string
	for _, u := range []struct{ file, mark, todo string }{
		{"deploy/profilesource.yaml", unknownURL, "set the URL in deploy/profilesource.yaml"},
		{"CODEOWNERS", "# SET", "set CODEOWNERS: until then no approval is required"},
		{".github/workflows/profiles.yaml", noVersion, "set OSM_GITOPS_VERSION in .github/workflows/profiles.yaml to the release of your controllers, such as v1.2.3 (this program is not a release): CI fails without it"},
		{".gitlab-ci.yml", noVersion, "set OSM_GITOPS_VERSION in .gitlab-ci.yml to the release of your controllers, such as v1.2.3 (this program is not a release): CI fails without it"},
	} {
		if bytes.Contains(files[u.file], []byte(u.mark)) {
			out = append(out, u.todo)
		}
	}
	return out
}

// noVersion is in the CI file until the user sets a release.
const noVersion = `OSM_GITOPS_VERSION: ""`

func (r Repository) readme() []byte {
	var b strings.Builder
	b.WriteString("# Profiles\n\n")
	b.WriteString("What the machines of our Kubernetes clusters boot with, changed by pull request.\n" +
		"[osm-gitops](https://github.com/osm-gitops/osm-gitops) brings what is merged to the clusters.\n\n")
	b.WriteString("| what | for |\n|---|---|\n")
	for _, row := range r.fileDescriptions() {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	b.WriteString("\n" + strings.TrimSpace(r.Readme) + "\n\n")
	b.WriteString(`## Change something

1. Change a file below ` + "`profiles/`" + `, and raise its ` + "`spec.version`" + ` in the same commit: what a version
   holds never changes afterwards.
2. Look at it:

       osm-gitops lint --base main
       osm-gitops diff main

3. Open a pull request. CI does the same, and shows which pools change as a comment.

Whoever can merge here is root on every new machine: see ` + "`CODEOWNERS`" + `.
`)
	if r.Host == GitHub || r.Host == GitLab {
		b.WriteString("\nCI needs `OSM_GITOPS_VERSION`, at the top of its file: the release that the controllers run.\n")
	}
	return []byte(b.String())
}

// fileDescriptions returns the path and the purpose of each file, for the README.
func (r Repository) fileDescriptions() [][2]string {
	rows := [][2]string{
		{"`profiles/`", "the profiles: what the controller reads"},
		{"`pools/`", "pools to render for, in CI and by hand; they hold no credentials, and nobody applies them"},
	}
	if r.has("refused/") {
		rows = append(rows, [2]string{"`refused/`", "profiles that osm-gitops refuses as they are: mend them and move them to `profiles/`, or delete them"})
	}
	rows = append(rows,
		[2]string{"`deploy/profilesource.yaml`", "has the controller follow this repository: `kubectl apply -f deploy/profilesource.yaml`"},
		[2]string{"`.osm-gitops.yaml`", "where profiles and pools are, and settings of `osm-gitops lint`"},
		[2]string{"`CODEOWNERS`", "who must approve"})
	switch r.Host {
	case GitHub:
		rows = append(rows, [2]string{"`.github/workflows/profiles.yaml`", "what CI does with a pull request"})
	case GitLab:
		rows = append(rows, [2]string{"`.gitlab-ci.yml`", "what CI does with a merge request"})
	default:
		return rows
	}
	return append(rows,
		[2]string{"`.pre-commit-config.yaml`", "the same check before a commit, by pre-commit"},
		[2]string{"`renovate.json`", "keeps the versions of downloads current"})
}

func (r Repository) has(folder string) bool {
	for name := range r.Files {
		if strings.HasPrefix(path.Clean(name), folder) {
			return true
		}
	}
	return false
}
