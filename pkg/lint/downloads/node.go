package downloads

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell/execution"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell/symbolic"
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

// FindWithPlaceholders renders an input with placeholders for credentials, and lists the downloads of its
// nodes. The error is that of rendering.
func FindWithPlaceholders(engine *render.Engine, in render.Input) (List, error) {
	in, _ = in.ReplaceSecrets()
	out, err := engine.Render(in)
	if err != nil {
		return List{}, err
	}
	files, err := engine.RenderNode(in)
	if err != nil {
		return List{}, err
	}
	positions := newPositions(in)
	list := Find(&Node{
		System: in.Pool.OperatingSystem, Version: in.Profile.Spec.OSVersion, Server: in.Cluster.Server,
		Stages: []Stage{
			{Name: "bootstrap", Files: files.Bootstrap.Files, Modules: out.OSC.BootstrapConfig.CloudInitModules, Source: positions.sourceLookup("bootstrap")},
			{Name: "provisioning", Files: files.Provisioning.Files, Modules: out.OSC.ProvisioningConfig.CloudInitModules, Source: positions.sourceLookup("provisioning")},
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
	k.walk = symbolic.Walker{Machine: k, OSRelease: n.osRelease()}
	for _, s := range n.Stages {
		for i := range s.Files {
			k.parseScriptOrRecordURLs(s, &s.Files[i])
		}
	}
	for _, s := range n.Stages {
		k.evalCloudInitModules(s)
		for _, f := range s.Files {
			if isUnit.MatchString(f.Path) {
				k.evalUnitCommands(s, f)
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
			k.recordImagesAndRepositories(s, f)
		}
	}
	k.reportUnsetSandboxImage()
	list := k.found.sortedList()
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

// findFilePreferStage returns a file of a node, with precedence for the given stage; nil if neither stage
// has it.
func (n *Node) findFilePreferStage(stage, name string) *render.NodeFile {
	var found *render.NodeFile
	sameStage := false
	for _, s := range n.Stages {
		for i, f := range s.Files {
			if f.Path == name && (!sameStage || s.Name == stage) {
				found, sameStage = &s.Files[i], s.Name == stage
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
		out["ID"] = "ubuntu"
		out["VERSION_ID"] = n.Version
		out["VERSION_CODENAME"] = n.codename()
		out["UBUNTU_CODENAME"] = n.codename()
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
	walk    symbolic.Walker
	found   collector
	scripts []*symbolic.Script
}

// effects record the effects of a node's programs on one path through its scripts.
type effects struct {
	// repositories that are configured.
	repositories []string
	// outputs maps the written files to their downloads.
	outputs map[string]*Item
}

// start returns the initial state.
func start() *execution.State { return &execution.State{Effects: effects{}} }

func effectsOf(w *execution.State) effects { return w.Effects.(effects) }

// Key implements execution.Effects. It omits outputs, which do not affect what scripts do.
func (f effects) Key() string { return fmt.Sprintf("%q", f.repositories) }

// Join implements execution.Effects.
func (f effects) Join(other execution.Effects) execution.Effects {
	return effects{union(f.repositories, other.(effects).repositories), f.outputs}
}

// File implements symbolic.Machine.
func (k *finder) File(name string) (text string, ok bool) {
	if f := k.node.findFilePreferStage(k.walk.Stage, name); f != nil {
		return f.Content, true
	}
	return "", false
}

// Script implements symbolic.Machine. If both stages have the path, it returns the script of the
// current stage.
func (k *finder) Script(path string) *symbolic.Script {
	var found *symbolic.Script
	for _, s := range k.scripts {
		if s.Path == path && (found == nil || s.Stage == k.walk.Stage) {
			found = s
		}
	}
	return found
}

// Write implements symbolic.Machine: scripts configure repositories by writing files.
func (k *finder) Write(w *execution.State, file, text string) { k.recordRepositoriesIn(w, file, text) }

// parseScriptOrRecordURLs parses a file if a shell runs it.
func (k *finder) parseScriptOrRecordURLs(s Stage, f *render.NodeFile) {
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
			if !isLocalOrMetadataURL(url) {
				k.ReportUnresolved(WithoutUser(url), "it is in a program of "+interpreter+", which is not analyzed: mirror it if the program downloads it")
			}
		}
		return
	}
	parsed, err := shell.Parse(f.Content)
	if err != nil {
		k.ReportUnresolved("the downloads of "+f.Path, fmt.Sprintf("it cannot be parsed as a script: %v", err))
		return
	}
	k.scripts = append(k.scripts, &symbolic.Script{Stage: s.Name, Path: f.Path, File: parsed})
}

// evalCloudInitModules evaluates the commands and repositories of cloud-init's modules.
func (k *finder) evalCloudInitModules(s Stage) {
	if s.Modules == nil {
		return
	}
	for _, list := range []struct {
		name     string
		commands []string
	}{{"bootcmd", s.Modules.BootCMD}, {"runcmd", s.Modules.RunCMD}} {
		for i, text := range list.commands {
			k.walk.At(s.Name, fmt.Sprintf("%s[%d]", list.name, i), 0)
			k.walk.RunScript(start(), text)
		}
	}
	for _, name := range sortedKeys(s.Modules.YumRepos) {
		k.walk.At(s.Name, "yum_repos["+name+"]", 0)
		for _, key := range []string{"baseurl", "mirrorlist", "metalink"} {
			if address := s.Modules.YumRepos[name][key]; address != "" {
				k.recordYumRepository(start(), address)
			}
		}
	}
}

// evalUnitCommands evaluates the commands of a unit.
func (k *finder) evalUnitCommands(s Stage, f render.NodeFile) {
	for _, line := range shell.UnitCommands(f.Content) {
		k.walk.At(s.Name, f.Path, line.Number)
		k.walk.RunScript(start(), line.Text)
	}
}

var (
	sandboxImage = regexp.MustCompile(`(?m)^\s*(?:sandbox|sandbox_image)\s*=\s*["']([^"'\n]+)["']`)
	sandboxFlag  = regexp.MustCompile(`--pod-infra-container-image[= ]["']?([^\s"'\\]+)`)
	imageField   = regexp.MustCompile(`(?m)^[\s-]*image:\s*["']?([^\s"'#]+)`)
)

// recordImagesAndRepositories finds images and repositories in files that are not scripts.
func (k *finder) recordImagesAndRepositories(s Stage, f render.NodeFile) {
	k.walk.At(s.Name, f.Path, 0)
	find := func(re *regexp.Regexp) {
		for _, m := range re.FindAllStringSubmatchIndex(f.Content, -1) {
			k.walk.Line = 1 + strings.Count(f.Content[:m[2]], "\n")
			k.recordImage(start(), f.Content[m[2]:m[3]])
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
		k.recordRepositoriesIn(start(), f.Path, f.Content)
	}
}

// reportUnsetSandboxImage reports as unresolved that containerd pulls its default sandbox image, if no
// other is configured.
func (k *finder) reportUnsetSandboxImage() {
	const config = "/etc/containerd/config.toml"
	f := k.node.findFilePreferStage("provisioning", config)
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
	k.ReportUnresolved("the sandbox (pause) image", "it is not configured, so containerd pulls its built-in default: set pauseImage in the settings (--pause-image)")
}
