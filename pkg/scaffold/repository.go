package scaffold

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"

	"github.com/osm-gitops/osm-gitops/examples/ci"
)

// Hosts of repositories that a Repository has CI for.
const (
	GitHub = "github"
	GitLab = "gitlab"
	// NoCI is a repository whose CI somebody writes by hand.
	NoCI = "none"
)

// Repository is what a repository is made of.
type Repository struct {
	// Files are its content by path: profiles, pools.
	Files map[string][]byte
	// Readme is what its README says of how it came to be, in Markdown.
	Readme string
	// Host is GitHub, GitLab or NoCI.
	Host string
	// URL from which controllers fetch it; empty where it is not known yet.
	URL string
	// Namespace of the controller.
	Namespace string
	// Owners of profiles, as a CODEOWNERS file names them; empty where not known.
	Owners string
	// Version of osm-gitops for CI, such as v1.2.3; any other is left to be set.
	Version string
}

// unknownURL stands in a ProfileSource until somebody knows better.
const unknownURL = "https://git.example.com/SET/THIS.git"

// release is a version that can be fetched by name.
var release = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)

// All returns every file by path: those of the repository, and what belongs to it.
func (r Repository) All() (map[string][]byte, error) {
	out := maps.Clone(r.Files)
	source, err := r.source()
	if err != nil {
		return nil, err
	}
	out["deploy/profilesource.yaml"] = source
	out["README.md"] = r.readme()
	out["CODEOWNERS"] = r.owners()
	out[".osm-gitops.yaml"] = []byte(lintConfig)
	if err := r.addCI(out); err != nil {
		return nil, err
	}
	return out, nil
}

// lintConfig is where suppressions go.
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

func (r Repository) addCI(out map[string][]byte) error {
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
			text = []byte(strings.Replace(string(text), `OSM_GITOPS_VERSION: ""`, "OSM_GITOPS_VERSION: "+r.Version, 1))
		}
		out[to] = text
	}
	return nil
}

// source is the ProfileSource that follows the repository.
func (r Repository) source() ([]byte, error) {
	url, comment := r.URL, ""
	if url == "" {
		url, comment = unknownURL, "# SET spec.git.url to where this repository is.\n"
	}
	b, err := yaml.Marshal(map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "ProfileSource",
		"metadata": map[string]any{"name": "profiles", "namespace": r.Namespace},
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
	if r.Owners != "" {
		return []byte(why + "/profiles/ " + r.Owners + "\n/.github/ " + r.Owners + "\n/CODEOWNERS " + r.Owners + "\n")
	}
	return []byte(why + "# SET the team, take away the #, and protect the branch main so that owners are asked.\n" +
		"# /profiles/ @example/platform\n# /.github/ @example/platform\n# /CODEOWNERS @example/platform\n")
}

func (r Repository) readme() []byte {
	var b strings.Builder
	b.WriteString("# Profiles\n\n")
	b.WriteString("What the machines of our Kubernetes clusters boot with, changed by pull request.\n" +
		"[osm-gitops](https://github.com/osm-gitops/osm-gitops) brings what is merged to the clusters.\n\n")
	b.WriteString("| what | for |\n|---|---|\n")
	for _, row := range r.rows() {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	b.WriteString("\n" + strings.TrimSpace(r.Readme) + "\n\n")
	b.WriteString(`## Change something

1. Change a file below ` + "`profiles/`" + `, and raise its ` + "`spec.version`" + ` in the same commit: what a version
   holds never changes afterwards.
2. Look at it:

       osm-gitops lint --base main profiles
       osm-gitops diff main --path profiles --machine-deployments pools

3. Open a pull request. CI does the same, and shows which pools change as a comment.

Whoever can merge here is root on every new machine: see ` + "`CODEOWNERS`" + `.
`)
	if r.Host == GitHub || r.Host == GitLab {
		b.WriteString("\nCI needs `OSM_GITOPS_VERSION`, at the top of its file: the release that the controllers run.\n")
	}
	return []byte(b.String())
}

// rows say what the files are for.
func (r Repository) rows() [][2]string {
	rows := [][2]string{
		{"`profiles/`", "the profiles: what the controller reads"},
		{"`pools/`", "pools to render for, in CI and by hand; they hold no credentials, and nobody applies them"},
	}
	if r.has("refused/") {
		rows = append(rows, [2]string{"`refused/`", "profiles that osm-gitops refuses as they are: mend them and move them to `profiles/`, or delete them"})
	}
	rows = append(rows,
		[2]string{"`deploy/profilesource.yaml`", "has the controller follow this repository: `kubectl apply -f deploy/profilesource.yaml`"},
		[2]string{"`.osm-gitops.yaml`", "settings of `osm-gitops lint`"},
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
