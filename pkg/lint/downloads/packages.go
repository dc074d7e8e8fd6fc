package downloads

import (
	"regexp"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell/execution"
)

var (
	rpmVersion  = regexp.MustCompile(`^(.+?)-(\d[^-]*)(-[^-]+)?$`)
	fromYumRepo = regexp.MustCompile(`(?m)^\s*(baseurl|mirrorlist|metalink)\s*=\s*(\S+)`)
	debLine     = regexp.MustCompile(`(?m)^\s*deb(?:-src)?\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)([^\n#]*)`)
	debSources  = regexp.MustCompile(`(?mi)^(URIs|Suites|Components):[ \t]*(.*)$`)
)

// positionalArgs removes options from arguments; those in withValue take a value.
func positionalArgs(args []string, withValue string) []string {
	var out []string
	values := strings.Fields(withValue)
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--":
			return append(out, args[i+1:]...)
		case strings.HasPrefix(args[i], "-"):
			if slices.Contains(values, args[i]) {
				i++
			}
		default:
			out = append(out, args[i])
		}
	}
	return out
}

func (k *finder) recordPackage(w *execution.State, manager, name, version string) {
	if name == "" {
		return
	}
	if shell.HasUnknown(name) || shell.HasUnknown(version) {
		k.add(w, Item{Kind: KindUnresolved, Name: shell.DisplayText(strings.TrimSuffix(manager+" package "+name+" "+version, " ")),
			Reason: "the package's name or version is known only on the node: make it constant in the profile"})
		return
	}
	k.add(w, Item{Kind: KindPackage, Name: name, Version: version, Manager: manager, Repositories: effectsOf(w).repositories})
}

// recordFullUpgrade records that all packages of a system are upgraded.
func (k *finder) recordFullUpgrade(w *execution.State, manager string) {
	k.recordPackage(w, manager, "*", "")
}

// recordAptInstall records what apt-get installs.
func (k *finder) recordAptInstall(w *execution.State, args []string) {
	const manager = "apt"
	again := slices.Contains(args, "--reinstall")
	args = positionalArgs(args, "-o -c -t -a --option --config-file --target-release --default-release --host-architecture")
	if len(args) == 0 {
		return
	}
	switch args[0] {
	case "install", "reinstall", "build-dep", "satisfy":
		for _, a := range args[1:] {
			name, version, _ := strings.Cut(a, "=")
			if !shell.HasUnknown(name) {
				name, _, _ = strings.Cut(name, "/")
			}
			if strings.HasPrefix(a, "/") || strings.HasPrefix(a, "./") || strings.HasSuffix(name, "-") {
				continue // a local file, or a package to remove
			}
			if shell.HasUnknown(a) && (again || args[0] == "reinstall") {
				continue // a local file that another command has downloaded
			}
			k.recordPackage(w, manager, name, version)
		}
	case "upgrade", "dist-upgrade", "full-upgrade", "safe-upgrade":
		k.recordFullUpgrade(w, manager)
	}
}

// rpmLike records what yum, dnf and similar programs install.
func rpmLike(manager string) func(*finder, *execution.State, []string) {
	return func(k *finder, w *execution.State, args []string) {
		if slices.Contains(args, "-C") || slices.Contains(args, "--cacheonly") {
			return // queries the local cache
		}
		args = positionalArgs(args, "-c -x --enablerepo --disablerepo --repo --repoid --exclude --releasever --setopt --installroot -R -d -e --config")
		if len(args) == 0 {
			return
		}
		switch args[0] {
		case "install", "localinstall", "reinstall", "downgrade", "add", "in", "groupinstall", "update-to", "install-n":
			for _, a := range args[1:] {
				switch {
				case strings.Contains(a, "://"):
					k.recordURL(w, a, "", "")
				case strings.HasPrefix(a, "/") || strings.HasPrefix(a, "./"):
				default:
					k.recordRPMSpec(w, manager, a)
				}
			}
		case "update", "upgrade", "distro-sync", "dist-upgrade", "up", "dup":
			if len(args) == 1 {
				k.recordFullUpgrade(w, manager)
			}
			for _, a := range args[1:] {
				k.recordRPMSpec(w, manager, a)
			}
		case "config-manager", "addrepo", "ar":
			k.addRepository(w, args[1:])
		}
	}
}

func (k *finder) recordRPMSpec(w *execution.State, manager, spec string) {
	if m := rpmVersion.FindStringSubmatch(spec); m != nil && !shell.HasUnknown(spec) {
		k.recordPackage(w, manager, m[1], m[2]+m[3])
		return
	}
	k.recordPackage(w, manager, spec, "")
}

// otherInstaller returns a function that records what an installer of other packages, such as pip,
// installs.
func otherInstaller(manager string) func(*finder, *execution.State, []string) {
	return func(k *finder, w *execution.State, args []string) {
		args = positionalArgs(args, "-r --requirement -i --index-url --extra-index-url -t --target --channel -c -v --version")
		if len(args) == 0 || args[0] != "install" && args[0] != "i" {
			return
		}
		for _, a := range args[1:] {
			name, version, _ := strings.Cut(a, "==")
			k.recordPackage(w, manager, name, version)
		}
	}
}

// addRepository records the address of a repository.
func (k *finder) addRepository(w *execution.State, args []string) {
	before := len(k.found)
	if k.recordRepositoriesIn(w, "", strings.Join(args, " ")); len(k.found) > before {
		return
	}
	k.recordURLs(w, args, "the address of a repository")
	if len(k.found) == before && slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "ppa:") || shell.HasUnknown(a) }) {
		k.ReportUnresolved(shell.DisplayText(strings.Join(args, " ")), "the address of this repository is unknown: write its URL")
	}
}

// recordPulledImages records the images that a command pulls.
func recordPulledImages(k *finder, w *execution.State, args []string) {
	args = positionalArgs(args, "-n --namespace -a --address --platform --creds --auth --timeout -r --runtime-endpoint -i --image-endpoint --config -H --host -u --user --hosts-dir --name -v -e -p --entrypoint")
	at := slices.IndexFunc(args, func(a string) bool { return a == "pull" || a == "run" || a == "copy" })
	if at < 0 || at+1 >= len(args) || args[at] == "run" && len(args) == 1 {
		return
	}
	k.recordImage(w, strings.TrimPrefix(args[at+1], "docker://"))
}

func (k *finder) recordImage(w *execution.State, name string) {
	if shell.HasUnknown(name) {
		k.add(w, Item{Kind: KindUnresolved, Name: "image " + shell.DisplayText(name), Reason: "the image's name is known only on the node: make it constant in the profile"})
		return
	}
	k.add(w, Item{Kind: KindImage, Name: name})
}

// recordRepositoriesIn finds apt and yum repositories in a text that is written to a file.
func (k *finder) recordRepositoriesIn(w *execution.State, file, text string) {
	if !strings.Contains(text, "://") && !shell.HasUnknown(text) {
		return
	}
	for _, m := range fromYumRepo.FindAllStringSubmatch(text, -1) {
		k.recordYumRepository(w, m[2])
	}
	for _, m := range debLine.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], ":/") || shell.HasUnknown(m[1]) {
			k.recordRepository(w, Item{Manager: "apt", Name: m[1], Suite: strings.Join(append([]string{m[2]}, strings.Fields(m[3])...), " ")})
		}
	}
	if strings.HasSuffix(file, ".sources") || strings.Contains(text, "URIs:") {
		parts := map[string]string{}
		for _, m := range debSources.FindAllStringSubmatch(text, -1) {
			parts[strings.ToLower(m[1])] = strings.TrimSpace(m[2])
		}
		for _, uri := range strings.Fields(parts["uris"]) {
			k.recordRepository(w, Item{Manager: "apt", Name: uri, Suite: strings.TrimSpace(parts["suites"] + " " + parts["components"])})
		}
	}
}

// recordYumRepository records a repository, for each architecture if the address contains it:
// https://dnf.readthedocs.io/en/latest/conf_ref.html#repo-variables
func (k *finder) recordYumRepository(w *execution.State, address string) {
	if !strings.Contains(address, "$basearch") && !strings.Contains(address, "$arch") {
		k.recordRepository(w, Item{Manager: "yum", Name: address})
		return
	}
	for _, uname := range []string{"x86_64", "aarch64"} {
		if w.Uname != "" && w.Uname != uname {
			continue
		}
		c := w.Clone()
		c.Uname = uname
		k.recordRepository(c, Item{Manager: "yum", Name: strings.NewReplacer("$basearch", uname, "$arch", uname).Replace(address)})
		// What follows has the downloads of both architectures.
		w.Effects = c.Effects
	}
}

func (k *finder) recordRepository(w *execution.State, item Item) {
	item.Kind, item.Name = KindRepository, strings.TrimSuffix(WithoutUser(item.Name), "/")
	if isLocalOrMetadataURL(item.Name) || strings.HasPrefix(item.Name, "file:") || strings.HasPrefix(item.Name, "cdrom:") {
		return
	}
	if shell.HasUnknown(item.Name) || shell.HasUnknown(item.Suite) || strings.Contains(item.Name, "$") {
		k.add(w, Item{Kind: KindUnresolved, Name: strings.TrimSpace(shell.DisplayText("repository " + item.Name + " " + item.Suite)),
			Reason: "a part of the repository's address is known only on the node: make it constant in the profile"})
		return
	}
	k.add(w, item)
	f := effectsOf(w)
	f.repositories = union(f.repositories, []string{item.Name})
	w.Effects = f
}
