package downloads

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Node is what is known of a pool's machines.
type Node struct {
	// System and its version, as the profile has them: "ubuntu", "24.04".
	System  osm.OperatingSystem
	Version string
	// Server is the URL of the cluster's API server. What nodes fetch from there is no
	// download.
	Server string
	Stages []Stage
}

// Stage is what one document puts on a node.
type Stage struct {
	// Name is "bootstrap" or "provisioning".
	Name  string
	Files []render.NodeFile
	// Modules of cloud-init, may be nil.
	Modules *osm.CloudInitModule
	// Source returns where in the profile a line of a file is from: its file, and the line
	// there, 0 where that is not known. May be nil.
	Source func(file string, line int) (path string, at int)
}

// Of renders an input with placeholders for credentials, and lists what its nodes
// download. The error is that of rendering.
func Of(engine *render.Engine, in render.Input) (List, error) {
	in, _ = in.Split()
	out, err := engine.Render(in)
	if err != nil {
		return List{}, err
	}
	files, err := engine.Node(in)
	if err != nil {
		return List{}, err
	}
	places := newPlaces(in.Profile)
	list := Find(&Node{
		System: in.Pool.OperatingSystem, Version: in.Profile.Spec.OSVersion, Server: in.Cluster.Server,
		Stages: []Stage{
			{Name: "bootstrap", Files: files.Bootstrap.Files, Modules: out.OSC.BootstrapConfig.CloudInitModules, Source: places.of(files.Bootstrap.Files, "bootstrap")},
			{Name: "provisioning", Files: files.Provisioning.Files, Modules: out.OSC.ProvisioningConfig.CloudInitModules, Source: places.of(files.Provisioning.Files, "provisioning")},
		},
	})
	for i := range list.Items {
		list.Items[i].Pools = []string{in.Pool.Namespace + "/" + in.Pool.Name}
		for j := range list.Items[i].Places {
			list.Items[i].Places[j].Profile = in.Profile.Provenance.Profile
		}
	}
	return list, nil
}

// Find lists what a node downloads.
func Find(n *Node) List {
	k := &walker{node: n, found: collector{}, done: map[string]bool{}}
	for _, s := range n.Stages {
		for i := range s.Files {
			k.read(s, &s.Files[i])
		}
	}
	for _, s := range n.Stages {
		k.stage = s.Name
		k.modules(s)
		for _, f := range s.Files {
			if isUnit.MatchString(f.Path) {
				k.unit(s, f)
			}
		}
	}
	for _, s := range k.scripts {
		if !s.reached { // nobody knows who runs it, and with which arguments
			k.stage, k.at = s.stage, Place{Stage: s.stage, File: s.file.Path}
			k.exec(s.parsed.Stmts, []*world{{}})
		}
	}
	for _, s := range n.Stages {
		k.stage = s.Name
		for _, f := range s.Files {
			k.content(s, f)
		}
	}
	k.sandbox()
	list := k.found.list()
	for i := range list.Items {
		for j, p := range list.Items[i].Places {
			for _, s := range n.Stages {
				if s.Name == p.Stage && s.Source != nil {
					list.Items[i].Places[j].Path, list.Items[i].Places[j].Line = s.Source(p.File, p.FileLine)
				}
			}
		}
	}
	return list
}

// file returns a file of a node, the stage's own before the other's; nil where there
// is none.
func (n *Node) file(stage, name string) *render.NodeFile {
	var found *render.NodeFile
	own := false
	for _, s := range n.Stages {
		for i, f := range s.Files {
			if f.Path == name && (!own || s.Name == stage) {
				found, own = &s.Files[i], s.Name == stage
			}
		}
	}
	return found
}

// codenames of Ubuntu's releases: https://wiki.ubuntu.com/Releases
var codenames = map[string]string{"20.04": "focal", "22.04": "jammy", "24.04": "noble"}

// codename is the system's, "" where it has none or it is not known.
func (n *Node) codename() string {
	if n.System != osm.OperatingSystemUbuntu {
		return ""
	}
	return codenames[n.Version]
}

// osRelease are the variables of /etc/os-release that are known: os-release(5).
func (n *Node) osRelease() map[string]string {
	out := map[string]string{}
	if n.codename() != "" {
		out["ID"], out["VERSION_ID"], out["VERSION_CODENAME"], out["UBUNTU_CODENAME"] = "ubuntu", n.Version, n.codename(), n.codename()
	}
	return out
}

// script is a file that a shell runs.
type script struct {
	stage   string
	file    *render.NodeFile
	parsed  *syntax.File
	reached bool
}

// maxScript bounds a script in bytes, and maxOpen the brackets in it: they nest.
const (
	maxScript = 512 << 10 // 512 KiB
	maxOpen   = 20_000
)

func parse(text string) (*syntax.File, error) {
	if n := strings.Count(text, "(") + strings.Count(text, "{") + strings.Count(text, "`"); len(text) > maxScript || n > maxOpen {
		return nil, fmt.Errorf("it has %d bytes and %d brackets, more than %d and %d", len(text), n, maxScript, maxOpen)
	}
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
}

var (
	shebang  = regexp.MustCompile(`^#!\s*(?:\S*/)?(?:env\s+(?:-S\s+)?)?(?:\S*/)?([^\s/]+)`)
	isUnit   = regexp.MustCompile(`/systemd/system/[^/]+\.(service|d/[^/]+\.conf)$`)
	execLine = regexp.MustCompile(`^(Exec(?:Start|StartPre|StartPost|Condition|Stop|StopPost|Reload))=[-@:+!|]*(.*)$`)
)

// read parses a file if a shell runs it.
func (k *walker) read(s Stage, f *render.NodeFile) {
	k.at = Place{Stage: s.Name, File: f.Path}
	interpreter := ""
	if m := shebang.FindStringSubmatch(f.Content); m != nil {
		interpreter = m[1]
	} else if strings.HasSuffix(f.Path, ".sh") {
		interpreter = "sh"
	}
	switch interpreter {
	case "":
		return
	case "sh", "bash", "dash", "ksh":
	default:
		for _, url := range anyURL.FindAllString(f.Content, -1) {
			if !isLocal(url) {
				k.unresolved(withoutUser(url), "it stands in a program of "+interpreter+", which is not followed: mirror it if the program downloads it")
			}
		}
		return
	}
	parsed, err := parse(f.Content)
	if err != nil {
		k.unresolved("the downloads of "+f.Path, fmt.Sprintf("it cannot be read as a script: %v", err))
		return
	}
	k.scripts = append(k.scripts, &script{stage: s.Name, file: f, parsed: parsed})
}

// modules follows the commands of cloud-init.
func (k *walker) modules(s Stage) {
	if s.Modules == nil {
		return
	}
	for _, list := range []struct {
		name     string
		commands []string
	}{{"bootcmd", s.Modules.BootCMD}, {"runcmd", s.Modules.RunCMD}} {
		for i, text := range list.commands {
			k.at = Place{Stage: s.Name, File: fmt.Sprintf("%s[%d]", list.name, i)}
			k.calls = 0
			k.inline(&world{}, text)
		}
	}
	for _, name := range sortedKeys(s.Modules.YumRepos) {
		k.at = Place{Stage: s.Name, File: "yum_repos[" + name + "]"}
		for _, key := range []string{"baseurl", "mirrorlist", "metalink"} {
			if address := s.Modules.YumRepos[name][key]; address != "" {
				k.yumRepository(&world{}, address)
			}
		}
	}
}

// unit follows the commands of a unit.
func (k *walker) unit(s Stage, f render.NodeFile) {
	lines := strings.Split(f.Content, "\n")
	for i := 0; i < len(lines); i++ {
		line, at := strings.TrimSpace(lines[i]), i+1
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + " " + strings.TrimSpace(lines[i])
		}
		if m := execLine.FindStringSubmatch(line); m != nil && m[2] != "" {
			k.at, k.calls = Place{Stage: s.Name, File: f.Path, FileLine: at}, 0
			k.inline(&world{}, m[2])
		}
	}
}

var (
	sandboxImage = regexp.MustCompile(`(?m)^\s*(?:sandbox|sandbox_image)\s*=\s*["']([^"'\n]+)["']`)
	sandboxFlag  = regexp.MustCompile(`--pod-infra-container-image[= ]["']?([^\s"'\\]+)`)
	imageField   = regexp.MustCompile(`(?m)^[\s-]*image:\s*["']?([^\s"'#]+)`)
)

// content looks for images and repositories in files that are no scripts.
func (k *walker) content(s Stage, f render.NodeFile) {
	k.at = Place{Stage: s.Name, File: f.Path}
	find := func(re *regexp.Regexp) {
		for _, m := range re.FindAllStringSubmatchIndex(f.Content, -1) {
			k.at.FileLine = 1 + strings.Count(f.Content[:m[2]], "\n")
			k.image(&world{}, f.Content[m[2]:m[3]])
		}
	}
	find(sandboxFlag)
	switch ext := path.Ext(f.Path); {
	case ext == ".toml":
		find(sandboxImage)
	case (ext == ".yaml" || ext == ".yml" || ext == ".json") && strings.Contains(f.Path, "/manifests/"):
		find(imageField)
	case ext == ".repo" && strings.Contains(f.Path, "/yum.repos.d/"), strings.HasPrefix(f.Path, "/etc/apt/sources.list"):
		k.at.FileLine = 1
		k.repositories(&world{}, f.Path, f.Content)
	}
}

// sandbox says that containerd pulls the image of its own choice where it is told none.
func (k *walker) sandbox() {
	const config = "/etc/containerd/config.toml"
	f := k.node.file("provisioning", config)
	if f == nil || sandboxImage.MatchString(f.Content) {
		return
	}
	for _, item := range k.found {
		if item.Kind == KindImage && strings.Contains(path.Base(item.Name), "pause") {
			return
		}
	}
	k.stage, k.at = "provisioning", Place{File: config}
	for _, s := range k.node.Stages {
		for i := range s.Files {
			if &s.Files[i] == f {
				k.at.Stage = s.Name
			}
		}
	}
	k.unresolved("the sandbox (pause) image", "containerd is not told which, and pulls the one it was built with: set pauseImage in the settings (--pause-image)")
}
