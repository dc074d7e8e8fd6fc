package nodescripts_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/osm-gitops/osm-gitops/test/nodescripts/protocol"
)

// realPrograms are the programs of this machine that scripts can call. Any other program, such as
// python, is missing: not every image has it.
var realPrograms = []string{
	"awk", "base64", "bash", "basename", "cat", "chmod", "chown", "cp", "curl", "cut", "date", "dirname", "env", "find", "grep", "gzip",
	"head", "hostname", "id", "install", "ip", "jq", "ln", "ls", "mkdir", "mktemp", "mv", "od", "readlink", "rm", "rmdir", "sed", "sha256sum",
	"sort", "stat", "tail", "tar", "tee", "timeout", "touch", "tr", "uname", "wc",
}

// watched are those of realPrograms that are always asked about: they fetch, and they
// put files in place.
var watched = []string{"curl", "mv"}

// standIns are the programs that would change the kernel or need a distribution.
var standIns = []string{
	"hostnamectl", "journalctl", "modinfo", "modprobe", "sleep", "swapoff", "sync", "sysctl", "systemctl",
}

// system is an image.
type system struct {
	name string
	// release is what /etc/os-release says.
	release string
	// packages is the package manager, empty: none.
	packages string
	// oldCloudInit takes --file before the command, as releases before 24.1 do.
	oldCloudInit bool
	// recorded: all commands are asked about, also those that are this machine's own.
	recorded bool
	// extra are additional stand-ins, units the units of the image.
	extra, units []string
	// without are programs, packages, modules and units that are not there.
	without []string
}

// images are the systems that profiles are for, as far as their scripts can see. Those of the dnf
// family are imitated most: only the names of their programs are real, so how yum interprets its
// arguments is not tested.
var images = map[string]system{
	"ubuntu": {
		name: "ubuntu", packages: "apt", release: "ID=ubuntu\nVERSION_ID=\"24.04\"\nVERSION_CODENAME=noble\n",
		extra: []string{"apt-cache", "apt-get", "apt-mark", "cloud-init", "dpkg", "dpkg-query", "netplan", "update-ca-certificates"},
		units: []string{"systemd-journald.service", "systemd-modules-load.service", "systemd-resolved.service", "systemd-networkd.service", "ufw.service", "cloud-init.service"},
	},
	"rhel": {
		name: "rhel", packages: "yum", release: "ID=\"rhel\"\nVERSION_ID=\"9.5\"\n", extra: enterprise,
		units: []string{"systemd-journald.service", "NetworkManager.service", "firewalld.service"},
	},
	"rockylinux": {
		name: "rockylinux", packages: "yum", release: "ID=\"rocky\"\nVERSION_ID=\"9.6\"\n", extra: enterprise,
		units: []string{"systemd-journald.service", "NetworkManager.service", "firewalld.service"},
	},
	"amzn2": {
		name: "amzn2", packages: "yum", release: "ID=\"amzn\"\nVERSION_ID=\"2\"\n", extra: enterprise, oldCloudInit: true,
		units: []string{"systemd-journald.service", "network.service"},
	},
	"flatcar": {
		name: "flatcar", release: "ID=flatcar\nID_LIKE=coreos\nVERSION_ID=4081.2.0\n",
		extra: []string{"coreos-cloudinit", "update-ca-certificates"},
		units: []string{"systemd-journald.service", "systemd-networkd.service", "containerd.service", "docker.service", "docker.socket", "update-engine.service", "locksmithd.service"},
	},
}

var enterprise = []string{"cloud-init", "nmcli", "rpm", "setenforce", "subscription-manager", "update-ca-trust", "yum"}

func (s system) programs() []string {
	all := slices.Concat(realPrograms, []string{"sh"}, standIns, s.extra)
	return slices.DeleteFunc(all, func(p string) bool { return slices.Contains(s.without, p) })
}

// files are the files of an image's /etc.
func (s system) files() map[string]string {
	authorities := publishers.certificate()
	files := map[string]string{
		"/etc/os-release":                      s.release,
		"/etc/hostname":                        "localhost\n",
		"/etc/nsswitch.conf":                   "hosts: files\n",
		"/etc/passwd":                          "root:x:0:0:root:/root:/bin/bash\n",
		"/etc/group":                           "root:x:0:\n",
		"/etc/hosts":                           hostsFile(),
		"/etc/environment":                     "EDITOR=vi\n",
		"/etc/fstab":                           "LABEL=root / ext4 defaults 0 1\n/swap.img none swap sw 0 0\n# /old none swap sw 0 0\n",
		"/etc/ssl/certs/ca-certificates.crt":   authorities,
		"/etc/pki/tls/certs/ca-bundle.crt":     authorities,
		"/etc/ca-certificates.conf":            "",
		"/usr/local/share/ca-certificates/.it": "",
	}
	switch s.packages {
	case "apt":
		files["/etc/apt/sources.list.d/.it"], files["/etc/apt/apt.conf.d/.it"] = "", ""
	case "yum":
		files["/etc/yum.repos.d/.it"], files["/etc/pki/rpm-gpg/.it"], files["/etc/pki/ca-trust/source/anchors/.it"] = "", "", ""
	}
	if s.name == "flatcar" {
		// This file makes Ignition run, and makes systemd treat the boot as the first.
		files["/boot/flatcar/first_boot"] = ""
	}
	for _, path := range s.without {
		delete(files, path)
	}
	return files
}

// packagePrefix marks a package in system.without: an image can lack curl although its package
// can be installed.
const packagePrefix = "package "

// has reports whether something is part of the image, or of the repositories.
func (s system) has(name string) bool { return !slices.Contains(s.without, name) }

// program says what a program does. The caller holds mu.
func (n *node) program(c protocol.Call) protocol.Reply {
	name, args := c.Argv[0], c.Argv[1:]
	if slices.Contains(realPrograms, name) {
		real, err := hostProgram(name)
		if err != nil {
			return failure(127, "%v", err)
		}
		if name == "curl" {
			args = hurry(args)
		}
		return protocol.Reply{Exec: inNode(real), Argv: append([]string{name}, args...)}
	}
	switch name {
	case "sleep":
		return n.sleep(c)
	case "systemctl":
		return n.systemctl(args)
	case "cloud-init":
		return n.cloudInit(args)
	case "coreos-cloudinit":
		return n.coreOSCloudInit(args)
	case "apt-get", "yum":
		return n.packageManager(args)
	case "apt-cache":
		return n.aptCache(args)
	case "rpm":
		return n.rpm(args)
	case "journalctl":
		return n.journal(args)
	case "modprobe":
		if !n.system.has(args[len(args)-1]) {
			return failure(1, "modprobe: FATAL: Module %s not found in directory /lib/modules", args[len(args)-1])
		}
	case "modinfo":
		return failure(1, "modinfo: ERROR: Module %s not found.", args[0])
	case "hostnamectl":
		if len(args) == 2 && args[0] == "set-hostname" {
			if !hostName.MatchString(args[1]) {
				return failure(1, "Could not set static hostname: Invalid hostname %q", args[1])
			}
			n.write("/etc/hostname", args[1]+"\n", 0o644)
		}
	case "sysctl", "swapoff", "sync", "dpkg", "dpkg-query", "apt-mark", "netplan", "nmcli", "setenforce", "subscription-manager",
		"update-ca-certificates", "update-ca-trust":
		// Nothing to do, but for the images that lack them.
	default:
		return failure(127, "%s: the stand-ins do not know it", name)
	}
	return protocol.Reply{}
}

// journal is what a unit of ours has printed, as supervise-setup.sh asks for it.
func (n *node) journal(args []string) protocol.Reply {
	i := slices.Index(args, "200")
	if i < 1 || args[i-1] != "--lines" {
		return protocol.Reply{}
	}
	lines := strings.SplitAfter(n.said.String(), "\n")
	return protocol.Reply{Stdout: strings.Join(lines[max(0, len(lines)-200):], "")}
}

// hostName is what hostnamectl takes.
var hostName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,62}[a-zA-Z0-9])?$`)

func failure(status int, format string, args ...any) protocol.Reply {
	return protocol.Reply{Stderr: fmt.Sprintf(format, args...) + "\n", Exit: status}
}

// maxSleeps is more attempts than any test needs to heal what it has broken.
const maxSleeps = 300

// sleep returns at once. The pauses of supervise.sh are counted.
func (n *node) sleep(c protocol.Call) protocol.Reply {
	seconds, err := strconv.ParseFloat(c.Argv[1], 64)
	if err != nil {
		return failure(1, "sleep: invalid time interval %q", c.Argv[1])
	}
	if len(c.Parents) > 0 && slices.ContainsFunc(c.Parents[0], func(arg string) bool { return strings.Contains(arg, "/supervise") }) {
		n.sleeps = append(n.sleeps, seconds)
		if len(n.sleeps) > maxSleeps {
			n.t.Errorf("%q has not succeeded after %d attempts", c.Parents[0], maxSleeps)
			n.off()
			return protocol.Reply{}
		}
		if n.onSleep != nil {
			n.onSleep(len(n.sleeps))
		}
	}
	return protocol.Reply{}
}

// hurryTo is how many seconds curl's limits have at most: longer than a healthy answer takes on a
// busy machine, and short enough to wait for the servers that stall.
const hurryTo = 10

// hurry makes curl's limits shorter. Its own retries are left to supervise.sh,
// for it would wait between them.
func hurry(args []string) []string {
	args = slices.Clone(args)
	for i := range len(args) - 1 {
		switch args[i] {
		case "--connect-timeout", "--max-time", "-m", "--speed-time":
			if limit, err := strconv.Atoi(args[i+1]); err == nil && limit > hurryTo {
				args[i+1] = strconv.Itoa(hurryTo)
			}
		case "--retry":
			args[i+1] = "0"
		}
	}
	return args
}

// packaged are the units and programs that packages bring.
var packaged = map[string]string{
	"containerd": "containerd.service", "containerd.io": "containerd.service", "open-iscsi": "iscsid.service", "iscsi-initiator-utils": "iscsid.service",
	"qemu-guest-agent": "qemu-guest-agent.service", "open-vm-tools": "vmtoolsd.service", "curl": "curl", "jq": "jq",
}

// packageName is a package without the version that is asked for.
func packageName(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	if i := strings.IndexAny(name, "0123456789"); isVersion(name, i) {
		name = name[:i-1]
	}
	return name
}

// isVersion reports whether a version in yum's manner begins at i: behind a dash, with a star.
func isVersion(name string, i int) bool {
	return i > 1 && name[i-1] == '-' && strings.HasSuffix(name, "*")
}

// packageManager is apt-get and yum: update, install, versionlock, list.
func (n *node) packageManager(args []string) protocol.Reply {
	var words []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-o":
			i++
		case !strings.HasPrefix(args[i], "-"):
			words = append(words, args[i])
		}
	}
	if len(words) == 0 {
		return failure(1, "a command is missing")
	}
	for _, arg := range words[1:] {
		if name := packageName(arg); words[0] != "update" && words[0] != "versionlock" && !n.system.has(packagePrefix+name) {
			return failure(100, "Unable to locate package %s", name)
		}
	}
	switch words[0] {
	case "install":
		for _, arg := range words[1:] {
			name := packageName(arg)
			n.machine.packages[name] = true
			if brings, ok := packaged[name]; ok && !strings.Contains(brings, ".") {
				n.install(brings)
			}
		}
	case "update", "list", "versionlock", "makecache":
	default:
		return failure(1, "the stand-in does not know the command %q", words[0])
	}
	return protocol.Reply{}
}

func (n *node) aptCache(args []string) protocol.Reply {
	if len(args) != 2 || args[0] != "policy" {
		return failure(100, "the stand-in does not know %q", args)
	}
	if !n.system.has(packagePrefix + args[1]) {
		return protocol.Reply{}
	}
	return protocol.Reply{Stdout: args[1] + ":\n  Installed: (none)\n  Candidate: 1:2.3-4\n  Version table:\n"}
}

// rpm is `rpm --query`.
func (n *node) rpm(args []string) protocol.Reply {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") && !n.machine.packages[arg] {
			return failure(1, "package %s is not installed", arg)
		}
	}
	return protocol.Reply{}
}
