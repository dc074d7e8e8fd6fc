package bootnodes_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/osm-gitops/osm-gitops/test/nodefixture"
)

// system is what a profile's machines run, as far as a release of Debian can play it.
type system struct {
	// name of its tests; profile that is shipped for it, and os of its pools.
	name, profile, os string
	// provider of its pools, and what they say of the operating system.
	provider string
	spec     map[string]any
	// pool is written by a user and replaces the pools of this package.
	pool *unstructured.Unstructured
	like *system // then: which of ours
	// image is the release of Debian whose userland it has.
	image string
	// virtual: it has a kernel of its own, see vm_test.go.
	virtual bool
	// reads is what reads the machine's document before systemd starts services.
	reads func(m *machine) error
	// furnish adds to the image what the system has and Debian has not.
	furnish func(m *machine)
	// reboots is how often it boots again by itself.
	reboots int
	// kernel lists the calls that stand-ins for kernel changes must have received.
	kernel []string
}

// ubuntu on two generations of cloud-init and systemd; the others once.
var (
	bookworm = &system{name: "ubuntu-bookworm", profile: "osp-ubuntu", os: "ubuntu", provider: "hetzner", image: "bookworm", reads: cloudInit, kernel: kernelOfAll}
	trixie   = &system{name: "ubuntu-trixie", profile: "osp-ubuntu", os: "ubuntu", provider: "hetzner", image: "trixie", reads: cloudInit, kernel: kernelOfAll}
	flatcar  = &system{name: "flatcar", profile: "osp-flatcar", os: "flatcar", provider: "openstack", image: "trixie", reads: ignition, reboots: 1, furnish: furnishFlatcar, kernel: kernelOfFlatcar}
	coreOS   = &system{name: "flatcar-cloud-init", profile: "osp-flatcar-cloud-init", os: "flatcar", provider: "anexia", image: "bookworm", reads: coreOSCloudInit,
		furnish: furnishCoreOS, spec: map[string]any{"provisioningUtility": "cloud-init"}, kernel: kernelOfFlatcar}
	rhel  = &system{name: "rhel", profile: "osp-rhel", os: "rhel", provider: "openstack", image: "trixie", reads: cloudInit, furnish: enterprise("rhel", "9.5"), kernel: kernelOfAll}
	rocky = &system{name: "rockylinux", profile: "osp-rockylinux", os: "rockylinux", provider: "hetzner", image: "trixie", reads: cloudInit, furnish: enterprise("rocky", "9.6"), kernel: kernelOfAll}
	// The older of these two releases of cloud-init, which is still newer than Amazon's.
	amazon = &system{name: "amzn2", profile: "osp-amzn2", os: "amzn2", provider: "aws", image: "bookworm", reads: cloudInit, furnish: enterprise("amzn", "2"), kernel: kernelOfAll}

	systems = []*system{bookworm, trixie, flatcar, coreOS, rhel, rocky, amazon}
)

var (
	kernelOfFlatcar = []string{"modprobe br_netfilter", "sysctl --quiet --system"}
	kernelOfAll     = append([]string{"swapoff -a"}, kernelOfFlatcar...)
)

// furnish adds to the image what a provider adds.
func (m *machine) furnish() {
	m.t.Helper()
	m.write("/etc/hosts", "127.0.0.1 localhost\n"+publishersAddress+" "+strings.Join(publisherNames, " ")+"\n", 0o644)
	m.write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files myhostname\n", 0o644)
	// An RSA key of the host takes up to a second of CPU, and nobody uses it.
	m.write("/etc/cloud/cloud.cfg.d/90-rehearsal.cfg", "datasource_list: [NoCloud, None]\nnetwork: {config: disabled}\nlocale: C.UTF-8\nssh_genkeytypes: [ed25519]\n", 0o644)
	m.write("/etc/apt/sources.list", fmt.Sprintf("deb [signed-by=/etc/apt/keyrings/debian.asc] https://%s/debian %s main\n", debianName, m.system.suite()), 0o644)
	m.write("/etc/apt/keyrings/debian.asc", m.cloud.publishers.key, 0o644)
	// Without a resolver apt's query for SRV records takes ten seconds.
	m.write("/etc/apt/apt.conf.d/90-rehearsal", "Acquire::EnableSrvRecords \"false\";\n", 0o644)
	m.write("/usr/local/share/ca-certificates/publishers.crt", m.cloud.publishers.ca, 0o644)
	bundle := "/etc/ssl/certs/ca-certificates.crt"
	m.write(bundle, m.read(bundle)+m.cloud.publishers.ca, 0o644)
	m.must(os.MkdirAll(m.path("/var/log/journal"), 0o755))
	m.must(os.MkdirAll(m.path("/etc/cni/net.d"), 0o755))
	m.write("/etc/cni/net.d/10-none.conflist", `{"cniVersion":"1.0.0","name":"none","plugins":[{"type":"loopback"}]}`+"\n", 0o644)
	if !m.system.virtual {
		m.contain()
	}
	if m.system.furnish != nil {
		m.system.furnish(m)
	}
}

// contain adds what a machine without its own kernel needs: stand-ins for commands that would
// change the kernel, and kubelet settings that tolerate this.
func (m *machine) contain() {
	m.t.Helper()
	for _, program := range []string{"modprobe", "swapoff", "sysctl"} {
		m.write("/usr/local/sbin/"+program, "#!/bin/sh\necho \"${0##*/} $*\" >>"+kernelRecord+"\n", 0o755)
	}
	m.write("/usr/local/sbin/rehearsal-kernel", kernelStandIn, 0o755)
	m.write("/etc/kubernetes/kubelet.conf.d/90-rehearsal.conf", kubeletDropIn, 0o600)
}

// kernelRecord is the file in which the stand-ins record their calls.
const kernelRecord = "/var/log/rehearsal-kernel"

// kernelStandIn puts files in place of the kernel's settings that a kubelet looks at,
// with the values that our profiles set: a container can set none. The kernel's messages
// are this machine's, too.
const kernelStandIn = `#!/bin/bash
set -euo pipefail
[[ -e /dev/kmsg ]] || ln -s /dev/null /dev/kmsg
mkdir -p /run/kernel-settings
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file=/run/kernel-settings/$(tr / . <<<"${setting%=*}")
  if [[ ! -e $file ]]; then
    echo "${setting#*=}" >"$file"
    mount --bind "$file" "/proc/sys/${setting%=*}"
  fi
done
`

// kubeletDropIn lets a kubelet run in a container, in addition to the configuration that a profile
// writes.
const kubeletDropIn = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupsPerQOS: false
enforceNodeAllocatable: []
`

// suite is the release of Debian.
func (s *system) suite() string {
	if s.virtual {
		return "bookworm"
	}
	return s.image
}

// is reports whether it is one of ours, or plays the same.
func (s *system) is(ours *system) bool { return s == ours || s.like == ours }

// cloudInit gives the machine its document as a provider of the datasource NoCloud does:
// https://docs.cloud-init.io/en/latest/reference/datasources/nocloud.html
func cloudInit(m *machine) error {
	for path, text := range map[string]string{
		"/var/lib/cloud/seed/nocloud/user-data": m.document,
		"/var/lib/cloud/seed/nocloud/meta-data": "instance-id: " + m.name + "\nlocal-hostname: " + m.name + "\n",
	} {
		if err := m.put(nodefixture.File{Path: path, Content: []byte(text), Mode: 0o600}); err != nil {
			return err
		}
	}
	return nil
}

// Paths of Flatcar: the file that makes Ignition run, and the document that has precedence over
// the platform's: https://www.flatcar.org/docs/latest/provisioning/ignition/boot-process/
const (
	firstBoot = "/boot/flatcar/first_boot"
	oemConfig = "/usr/share/oem/config.ign"
)

// ignition runs Ignition as Flatcar's initial RAM disk does: at the first boot, before the system
// starts.
func ignition(m *machine) error {
	if !m.exists(firstBoot) {
		return nil
	}
	document := []byte(m.document)
	if m.exists(oemConfig) {
		document = []byte(m.read(oemConfig))
	}
	// /run is a new one. The root is bound to no other path, and has no /proc, because that would
	// be this machine's.
	const script = `set -eu
mount --bind "$1" /mnt
mount -t tmpfs tmpfs /run
cat >/run/user.ign
for stage in fetch-offline fetch files; do
  IGNITION_CONFIG_FILE=/run/user.ign "$2" --platform=file --stage=$stage --root=/mnt --config-cache=/run/ignition.json --log-to-stdout
done`
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "bash", "-c", script, "bash", m.root, os.Getenv(ignitionEnv))
	cmd.Stdin = bytes.NewReader(document)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("Ignition: %w:\n%s", err, out)
	}
	return os.Remove(m.path(firstBoot))
}

// coreOSCloudInit does at every boot what coreos-cloudinit does, which cannot be had as
// a module: it writes files and units. Those that it would start are wanted by systemd.
func coreOSCloudInit(m *machine) error {
	d, err := nodefixture.Parse([]byte(m.document))
	if err != nil {
		return err
	}
	all := d.Files
	for _, u := range d.Units {
		all = append(all, u.Files()...)
	}
	for _, f := range all {
		if err := m.put(f); err != nil {
			return err
		}
	}
	wants := "/etc/systemd/system/multi-user.target.wants/"
	if err := os.MkdirAll(m.path(wants), 0o755); err != nil {
		return err
	}
	for _, u := range d.Units {
		if link := m.path(wants + u.Name); (u.Enable || u.Start) && !m.exists(wants+u.Name) {
			if err := os.Symlink("/etc/systemd/system/"+u.Name, link); err != nil {
				return err
			}
		}
	}
	return nil
}

// furnishFlatcar makes it a machine on which Ignition has not run yet, without
// cloud-init, and with the units that Flatcar has.
func furnishFlatcar(m *machine) {
	m.t.Helper()
	m.write("/etc/os-release", "ID=flatcar\nID_LIKE=coreos\nVERSION_ID=4081.2.0\nPRETTY_NAME=\"Flatcar, played by Debian\"\n", 0o644)
	m.write("/etc/cloud/cloud-init.disabled", "", 0o644)
	m.write(firstBoot, "", 0o644)
	m.must(os.Remove(m.path("/etc/machine-id")))
	// Units that are not requested stay disabled, as in Flatcar's own presets.
	m.write("/usr/lib/systemd/system-preset/99-default.preset", "disable *\n", 0o644)
	program, err := containerd()
	m.must(err)
	m.write(containerdProgram, string(program), 0o755)
	m.write("/usr/lib/systemd/system/containerd.service", containerdUnit(), 0o644)
	m.wanted("containerd.service")
	for _, name := range []string{"docker", "locksmithd", "update-engine"} {
		m.plays(name)
	}
}

// furnishCoreOS adds the program that our profile calls. It is of Python, which the image has for its
// own cloud-init.
func furnishCoreOS(m *machine) {
	m.t.Helper()
	furnishFlatcar(m)
	m.write("/usr/local/bin/coreos-cloudinit", coreOSProgram, 0o755)
}

// coreOSProgram does with the files of a document what coreos-cloudinit does:
// https://github.com/flatcar/coreos-cloudinit/blob/flatcar-master/coreos-cloudinit.go
const coreOSProgram = `#!/usr/bin/python3
import os, sys, yaml
option, path = sys.argv[1].split("=", 1)
assert option == "--from-file"
with open(path) as f:
    document = yaml.safe_load(f)
assert "coreos" not in document, "this stand-in writes no units"
for file in document["write_files"]:
    assert "encoding" not in file
    os.makedirs(os.path.dirname(file["path"]), exist_ok=True)
    with open(file["path"], "w") as f:
        f.write(file["content"])
    os.chmod(file["path"], int(file["permissions"], 8))
`

// plays gives it a service that does nothing, and is started at every boot.
func (m *machine) plays(name string) {
	m.t.Helper()
	m.write("/usr/lib/systemd/system/"+name+".service", "[Unit]\nDescription="+name+", played\n\n"+
		"[Service]\nExecStart=/usr/bin/sleep infinity\n\n[Install]\nWantedBy=multi-user.target\n", 0o644)
	m.wanted(name + ".service")
}

// wanted lets systemd start a unit at every boot.
func (m *machine) wanted(unit string) {
	m.t.Helper()
	dir := m.path("/etc/systemd/system/multi-user.target.wants")
	m.must(os.MkdirAll(dir, 0o755))
	m.must(os.Symlink("/usr/lib/systemd/system/"+unit, dir+"/"+unit))
}

// yumRecord is the file in which the stand-ins for yum and similar programs record their calls.
const yumRecord = "/var/log/rehearsal-yum"

// enterprise makes it a machine of the family that has yum. Of that there is nothing
// here but names: what a real yum makes of its arguments is not tested.
func enterprise(id, version string) func(m *machine) {
	return func(m *machine) {
		m.t.Helper()
		m.write("/etc/os-release", fmt.Sprintf("ID=%q\nVERSION_ID=%q\nPRETTY_NAME=\"%s, played by Debian\"\n", id, version, id), 0o644)
		for _, dir := range []string{"/etc/yum.repos.d", "/etc/pki/rpm-gpg", "/etc/pki/ca-trust/source/anchors", "/etc/selinux"} {
			m.must(os.MkdirAll(m.path(dir), 0o755))
		}
		for name, text := range map[string]string{"yum": yum, "rpm": rpm, "setenforce": recording, "subscription-manager": recording, "update-ca-trust": recording} {
			m.write("/usr/local/bin/"+name, text, 0o755)
		}
		program, err := containerd()
		m.must(err)
		m.write("/usr/local/share/packages"+containerdProgram, string(program), 0o755)
		m.write("/usr/local/share/packages/usr/lib/systemd/system/containerd.service", containerdUnit(), 0o644)
		m.plays("firewalld")
	}
}

// recording is a program that succeeds.
const recording = "#!/bin/sh\necho \"${0##*/} $*\" >>" + yumRecord + "\n"

// installed is the file in which the stand-in for yum records packages.
const installed = "/var/lib/rehearsal-packages"

// yum records what is installed. Before a package of Docker's it reads the repository's first
// files at the address in the profile's file. It provides containerd.
const yum = `#!/bin/bash
set -euo pipefail
echo "yum $*" >>` + yumRecord + `
words=()
for word in "$@"; do
  [[ $word == -* ]] || words+=("$word")
done
case ${words[0]} in
install)
  for package in "${words[@]:1}"; do
    if [[ $package == containerd.io-* ]]; then
      repo=/etc/yum.repos.d/docker-ce.repo
      [[ -s $(sed -n 's|^gpgkey=file://||p' $repo) ]]
      base=$(sed -n 's/^baseurl=//p' $repo)
      curl --fail --silent --show-error --output /dev/null "${base//\$basearch/x86_64}/repodata/repomd.xml"
    fi
    case $package in
    containerd*-[0-9]*)
      cp -r --remove-destination /usr/local/share/packages/. / # one may run
      package=${package%-[0-9]*}
      ;;
    esac
    echo "$package" >>` + installed + `
  done
  ;;
list | versionlock) ;;
*)
  echo "yum: the stand-in does not know ${words[0]}" >&2
  exit 1
  ;;
esac
`

// rpm knows what yum has installed.
const rpm = `#!/bin/bash
set -euo pipefail
echo "rpm $*" >>` + yumRecord + `
for word in "$@"; do
  if [[ $word != -* ]] && ! grep -q -x -F -e "$word" ` + installed + `; then
    echo "package $word is not installed"
    exit 1
  fi
done
`
