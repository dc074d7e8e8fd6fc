package downloads

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Node contains the facts about a pool's machines.
type Node struct {
	// System and Version in the notation of the profile: "ubuntu", "24.04".
	System  osm.OperatingSystem
	Version string
	// Server is the URL of the cluster's API server. Requests to it are not downloads.
	Server string
	Stages []Stage
}

// Stage contains the files and commands of one document.
type Stage struct {
	// Name is "bootstrap" or "provisioning".
	Name  string
	Files []render.NodeFile
	// Modules of cloud-init, can be nil.
	Modules *osm.CloudInitModule
	// Source returns the origin of a line of a file on the node: the profile's file and its
	// line, 0 if it is unknown. It can be nil.
	Source func(file string, line int) (path string, at int)
}

// Of renders an input with placeholders for credentials, and lists the downloads of its
// nodes. The error is that of rendering.
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
	places := newPositions(in)
	list := Find(&Node{
		System: in.Pool.OperatingSystem, Version: in.Profile.Spec.OSVersion, Server: in.Cluster.Server,
		Stages: []Stage{
			{Name: "bootstrap", Files: files.Bootstrap.Files, Modules: out.OSC.BootstrapConfig.CloudInitModules, Source: places.of("bootstrap")},
			{Name: "provisioning", Files: files.Provisioning.Files, Modules: out.OSC.ProvisioningConfig.CloudInitModules, Source: places.of("provisioning")},
		},
	})
	for i := range list.Items {
		list.Items[i].Pools = []string{in.Pool.Namespace + "/" + in.Pool.Name}
		for j := range list.Items[i].Positions {
			list.Items[i].Positions[j].Profile = in.Profile.Provenance.Profile
		}
	}
	return list, nil
}

// Find lists the downloads of a node.
func Find(n *Node) List {
	k := &finder{node: n, found: collector{}}
	k.walk = shell.Walker{Machine: k, OSRelease: n.osRelease()}
	for _, s := range n.Stages {
		for i := range s.Files {
			k.read(s, &s.Files[i])
		}
	}
	for _, s := range n.Stages {
		k.modules(s)
		for _, f := range s.Files {
			if isUnit.MatchString(f.Path) {
				k.unit(s, f)
			}
		}
	}
	for _, s := range k.scripts {
		if !s.Called {
			k.walk.Run(s, start())
		}
	}
	for _, s := range n.Stages {
		for _, f := range s.Files {
			k.content(s, f)
		}
	}
	k.sandbox()
	list := k.found.list()
	for i := range list.Items {
		for j, p := range list.Items[i].Positions {
			for _, s := range n.Stages {
				if s.Name == p.Stage && s.Source != nil {
					list.Items[i].Positions[j].Path, list.Items[i].Positions[j].Line = s.Source(p.File, p.FileLine)
				}
			}
		}
	}
	return list
}

// file returns a file of a node, with precedence for the given stage; nil if neither stage
// has it.
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

// codename returns the codename of the system, "" if it has none or it is unknown.
func (n *Node) codename() string {
	if n.System != osm.OperatingSystemUbuntu {
		return ""
	}
	return codenames[n.Version]
}

// osRelease returns the known variables of /etc/os-release: os-release(5).
func (n *Node) osRelease() map[string]string {
	out := map[string]string{}
	if n.codename() != "" {
		out["ID"], out["VERSION_ID"], out["VERSION_CODENAME"], out["UBUNTU_CODENAME"] = "ubuntu", n.Version, n.codename(), n.codename()
	}
	return out
}

var (
	shebang = regexp.MustCompile(`^#!\s*(?:\S*/)?(?:env\s+(?:-S\s+)?)?(?:\S*/)?([^\s/]+)`)
	isUnit  = regexp.MustCompile(`/systemd/system/[^/]+\.(service|d/[^/]+\.conf)$`)
)

// finder finds what the scripts of a node download.
type finder struct {
	node    *Node
	walk    shell.Walker
	found   collector
	scripts []*shell.Script
}

// effects record the effects of a node's programs on one path through its scripts.
type effects struct {
	// repositories that are configured.
	repositories []string
	// outputs maps the written files to their downloads.
	outputs map[string]*Item
}

// start returns the initial state.
func start() *shell.State { return &shell.State{Effects: effects{}} }

func effectsOf(w *shell.State) effects { return w.Effects.(effects) }

// Key implements shell.Facts. It omits outputs, which do not affect what scripts do.
func (f effects) Key() string { return fmt.Sprintf("%q", f.repositories) }

// Join implements shell.Facts.
func (f effects) Join(other shell.Effects) shell.Effects {
	return effects{union(f.repositories, other.(effects).repositories), f.outputs}
}

// File implements shell.Machine.
func (k *finder) File(name string) (text string, ok bool) {
	if f := k.node.file(k.walk.Stage, name); f != nil {
		return f.Content, true
	}
	return "", false
}

// Script implements shell.Machine. If both stages have the path, it returns the script of the
// current stage.
func (k *finder) Script(path string) *shell.Script {
	var found *shell.Script
	for _, s := range k.scripts {
		if s.Path == path && (found == nil || s.Stage == k.walk.Stage) {
			found = s
		}
	}
	return found
}

// Write implements shell.Machine: scripts configure repositories by writing files.
func (k *finder) Write(w *shell.State, file, text string) { k.repositories(w, file, text) }

// read parses a file if a shell runs it.
func (k *finder) read(s Stage, f *render.NodeFile) {
	k.walk.At(s.Name, f.Path, 0)
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
				k.Unresolved(withoutUser(url), "it is in a program of "+interpreter+", which is not analyzed: mirror it if the program downloads it")
			}
		}
		return
	}
	parsed, err := shell.Parse(f.Content)
	if err != nil {
		k.Unresolved("the downloads of "+f.Path, fmt.Sprintf("it cannot be parsed as a script: %v", err))
		return
	}
	k.scripts = append(k.scripts, &shell.Script{Stage: s.Name, Path: f.Path, File: parsed})
}

// modules follows the commands of cloud-init.
func (k *finder) modules(s Stage) {
	if s.Modules == nil {
		return
	}
	for _, list := range []struct {
		name     string
		commands []string
	}{{"bootcmd", s.Modules.BootCMD}, {"runcmd", s.Modules.RunCMD}} {
		for i, text := range list.commands {
			k.walk.At(s.Name, fmt.Sprintf("%s[%d]", list.name, i), 0)
			k.walk.Command(start(), text)
		}
	}
	for _, name := range sortedKeys(s.Modules.YumRepos) {
		k.walk.At(s.Name, "yum_repos["+name+"]", 0)
		for _, key := range []string{"baseurl", "mirrorlist", "metalink"} {
			if address := s.Modules.YumRepos[name][key]; address != "" {
				k.yumRepository(start(), address)
			}
		}
	}
}

// unit follows the commands of a unit.
func (k *finder) unit(s Stage, f render.NodeFile) {
	for _, line := range shell.UnitCommands(f.Content) {
		k.walk.At(s.Name, f.Path, line.Number)
		k.walk.Command(start(), line.Text)
	}
}

var (
	sandboxImage = regexp.MustCompile(`(?m)^\s*(?:sandbox|sandbox_image)\s*=\s*["']([^"'\n]+)["']`)
	sandboxFlag  = regexp.MustCompile(`--pod-infra-container-image[= ]["']?([^\s"'\\]+)`)
	imageField   = regexp.MustCompile(`(?m)^[\s-]*image:\s*["']?([^\s"'#]+)`)
)

// content finds images and repositories in files that are not scripts.
func (k *finder) content(s Stage, f render.NodeFile) {
	k.walk.At(s.Name, f.Path, 0)
	find := func(re *regexp.Regexp) {
		for _, m := range re.FindAllStringSubmatchIndex(f.Content, -1) {
			k.walk.Line = 1 + strings.Count(f.Content[:m[2]], "\n")
			k.image(start(), f.Content[m[2]:m[3]])
		}
	}
	find(sandboxFlag)
	switch ext := path.Ext(f.Path); {
	case ext == ".toml":
		find(sandboxImage)
	case (ext == ".yaml" || ext == ".yml" || ext == ".json") && strings.Contains(f.Path, "/manifests/"):
		find(imageField)
	case ext == ".repo" && strings.Contains(f.Path, "/yum.repos.d/"), strings.HasPrefix(f.Path, "/etc/apt/sources.list"):
		k.walk.Line = 1
		k.repositories(start(), f.Path, f.Content)
	}
}

// sandbox reports that containerd pulls its default image if none is configured.
func (k *finder) sandbox() {
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
	for _, s := range k.node.Stages {
		for i := range s.Files {
			if &s.Files[i] == f {
				k.walk.At(s.Name, config, 0)
			}
		}
	}
	k.Unresolved("the sandbox (pause) image", "it is not configured, so containerd pulls its built-in default: set pauseImage in the settings (--pause-image)")
}
