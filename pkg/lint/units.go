package lint

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/agext/levenshtein"
	"github.com/coreos/go-systemd/v22/unit"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// unitDir is the folder for the units of a profile, systemd.unit(5).
const unitDir = "/etc/systemd/system/"

// directives are "Section Name" lines, see the comment in it.
//
//go:embed directives.txt
var directiveList string

// directives are the names that systemd reads, by section.
var directives = sync.OnceValue(func() map[string][]string {
	known := map[string][]string{}
	for line := range strings.Lines(directiveList) {
		if section, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && section != "#" {
			known[section] = append(known[section], name)
		}
	}
	return known
})

// sectionsOf lists the sections of each unit type in addition to Unit and Install.
var sectionsOf = map[string]string{
	".service": "Service", ".socket": "Socket", ".mount": "Mount", ".automount": "Automount", ".swap": "Swap",
	".path": "Path", ".timer": "Timer", ".slice": "Slice", ".scope": "Scope", ".target": "", ".device": "",
}

// units checks the unit files of one profile.
type units struct {
	doc profile.Document
	// files are the units that the profile brings, by name.
	files map[string]bool
	// otherContents joins the texts of the profile that are not units: they name installed packages.
	otherContents string
}

func unitsOf(doc profile.Document, texts []*textHit) units {
	u := units{doc: doc, files: map[string]bool{}}
	var words strings.Builder
	for _, t := range texts {
		if t.text.Kind != KindUnit {
			words.Write(t.text.Content)
			words.WriteByte('\n')
			continue
		}
		if name, dropIn := unitName(t.text.File); !dropIn {
			u.files[name] = true
		}
	}
	for _, config := range []osm.OSPConfig{doc.Spec.BootstrapConfig, doc.Spec.ProvisioningConfig} {
		for _, x := range config.Units {
			u.files[x.Name] = true
		}
	}
	u.otherContents = words.String()
	return u
}

// unitName is the unit that a file is of.
func unitName(file string) (name string, dropIn bool) {
	dir, base := path.Split(path.Clean(file))
	if owner, ok := strings.CutSuffix(path.Base(dir), ".d"); ok {
		return owner, true
	}
	return base, false
}

// check is a TextCheck.
func (u units) check(_ context.Context, t Text) []Finding {
	if t.Kind != KindUnit {
		return nil
	}
	f := unitFileText{units: u, text: t}
	f.name, f.dropIn = unitName(t.File)
	f.parseAndCheck()
	return f.findings
}

// unitFileText is one unit file.
type unitFileText struct {
	units
	text     Text
	name     string
	dropIn   bool
	options  []option
	findings []Finding
}

// option is an assignment with its line.
type option struct {
	section, name, value string
	line                 int
}

func (f *unitFileText) add(severity Severity, line int, format string, args ...any) {
	f.findings = append(f.findings, f.text.Finding(RuleUnit, severity, line, fmt.Sprintf(format, args...)))
}

func (f *unitFileText) parseAndCheck() {
	options, err := unit.DeserializeOptions(bytes.NewReader(f.text.Content))
	if errors.Is(err, unit.ErrLineTooLong) {
		f.add(SeverityNote, 0, "was not checked: it has a line of more than %d bytes", unit.SYSTEMD_LINE_MAX)
		return
	}
	if err != nil {
		f.add(SeverityError, brokenLine(f.text.Content), "invalid unit file: %v", err)
		return
	}
	lines := assignmentLines(f.text.Content)
	for i, o := range options {
		at := 0
		// If the numbers differ, it is unknown which option is on which line.
		if len(lines) == len(options) {
			at = lines[i]
		}
		f.options = append(f.options, option{o.Section, o.Name, o.Value, at})
	}
	f.checkSections()
	f.checkDirectiveNames()
	if !f.dropIn {
		f.checkStructure()
	}
	f.checkReferences()
}

// assignmentLines returns the lines on which assignments begin, in order.
func assignmentLines(content []byte) []int {
	var lines []int
	continued := false
	n := 0
	for line := range strings.Lines(string(content)) {
		n++
		trimmed := strings.TrimSpace(line)
		if comment := strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";"); comment {
			continue
		}
		if !continued && trimmed != "" && trimmed[0] != '[' {
			lines = append(lines, n)
		}
		continued = strings.HasSuffix(trimmed, `\`)
	}
	return lines
}

// brokenLine returns the first line that is invalid in a unit file; 0 if it is unknown.
func brokenLine(content []byte) int {
	section, continued := false, false
	n := 0
	for line := range strings.Lines(string(content)) {
		n++
		trimmed := strings.TrimSpace(line)
		switch {
		case continued, trimmed == "", trimmed[0] == '#', trimmed[0] == ';':
		case trimmed[0] == '[':
			section = true
			if !strings.HasSuffix(trimmed, "]") {
				return n
			}
		case !section, !strings.Contains(trimmed, "="):
			return n
		}
		continued = strings.HasSuffix(trimmed, `\`)
	}
	return 0
}

// checkSections finds sections that systemd does not read in a unit of this type.
func (f *unitFileText) checkSections() {
	typeSection := sectionsOf[path.Ext(f.name)]
	n := 0
	for line := range strings.Lines(string(f.text.Content)) {
		n++
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "[") || !strings.HasSuffix(line, "]") {
			continue
		}
		section := line[1 : len(line)-1]
		if section == "Unit" || section == "Install" || section == typeSection && typeSection != "" || strings.HasPrefix(section, "X-") {
			continue
		}
		known := []string{"Unit", "Install"}
		if typeSection != "" {
			known = append(known, typeSection)
		}
		f.add(SeverityError, n, "systemd ignores section [%s] in %s: use one of %s", section, f.name, "["+strings.Join(known, "], [")+"]")
	}
}

// checkDirectiveNames finds directives that are probably misspelt. A name that resembles no known name
// can belong to a newer systemd.
func (f *unitFileText) checkDirectiveNames() {
	for _, o := range f.options {
		known := directives()[o.section]
		if len(known) == 0 || slices.Contains(known, o.name) || strings.HasPrefix(o.name, "X-") {
			continue
		}
		for _, k := range known {
			if levenshtein.Distance(strings.ToLower(o.name), strings.ToLower(k), nil) <= 2 && len(k) > 4 {
				f.add(SeverityError, o.line, "systemd ignores the unknown directive %s= in [%s]: did you mean %s=?", o.name, o.section, k)
				break
			}
		}
		for section, names := range directives() {
			if section != o.section && slices.Contains(names, o.name) && (section == "Unit" || section == "Install" || section == sectionsOf[path.Ext(f.name)]) {
				f.add(SeverityError, o.line, "systemd ignores %s= in [%s]: move it to [%s]", o.name, o.section, section)
			}
		}
	}
}

// effectiveAssignments returns the effective assignments of a name: an empty value resets those before it.
func (f *unitFileText) effectiveAssignments(section, name string) []option {
	var out []option
	for _, o := range f.options {
		if o.section != section || o.name != name {
			continue
		}
		if out = append(out, o); strings.TrimSpace(o.value) == "" {
			out = nil
		}
	}
	return out
}

// lastAssignment is the value of a name that has one.
func (f *unitFileText) lastAssignment(section, name string) (option, bool) {
	all := f.effectiveAssignments(section, name)
	if len(all) == 0 {
		return option{}, false
	}
	return all[len(all)-1], true
}

// checkStructure finds what systemd rejects in a unit as such, systemd.service(5) and the like.
func (f *unitFileText) checkStructure() {
	switch path.Ext(f.name) {
	case ".service":
		f.checkService()
	case ".timer":
		f.requireOneOf("Timer", "OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec", "OnCalendar", "OnClockChange", "OnTimezoneChange")
		f.requireTriggeredUnit("Timer")
	case ".socket":
		f.requireOneOf("Socket", "ListenStream", "ListenDatagram", "ListenSequentialPacket", "ListenFIFO", "ListenSpecial", "ListenNetlink", "ListenMessageQueue", "ListenUSBFunction")
		f.requireTriggeredUnit("Socket")
	case ".path":
		f.requireOneOf("Path", "PathExists", "PathExistsGlob", "PathChanged", "PathModified", "DirectoryNotEmpty")
		f.requireTriggeredUnit("Path")
	case ".mount":
		f.requireOneOf("Mount", "What")
	}
}

// requireOneOf adds a finding if a section has none of the assignments.
func (f *unitFileText) requireOneOf(section string, names ...string) {
	for _, name := range names {
		if len(f.effectiveAssignments(section, name)) > 0 {
			return
		}
	}
	f.add(SeverityError, 0, "systemd rejects %s: [%s] has none of %s=", f.name, section, strings.Join(names, "=, "))
}

// requireTriggeredUnit adds a finding if the unit that a timer, socket or path starts does not
// exist.
func (f *unitFileText) requireTriggeredUnit(section string) {
	name := strings.TrimSuffix(f.name, path.Ext(f.name)) + ".service"
	key := "Unit"
	if section == "Socket" {
		key = "Service"
	}
	line := 0
	if o, ok := f.lastAssignment(section, key); ok {
		name, line = strings.TrimSpace(o.value), o.line
	}
	if section == "Socket" && len(f.effectiveAssignments(section, "Accept")) > 0 {
		return // it starts instances of a template
	}
	if !f.mayHaveUnit(name) {
		f.add(SeverityWarning, line, "%s starts %s, which the profile does not contain: add it, or name another unit with %s=", f.name, name, key)
	}
}

var serviceTypes = []string{"simple", "exec", "forking", "oneshot", "dbus", "notify", "notify-reload", "idle"}

var restarts = []string{"no", "always", "on-success", "on-failure", "on-abnormal", "on-abort", "on-watchdog"}

func (f *unitFileText) checkService() {
	starts := f.effectiveAssignments("Service", "ExecStart")
	typ, named := f.lastAssignment("Service", "Type")
	kind := strings.TrimSpace(typ.value)
	if named && !slices.Contains(serviceTypes, kind) {
		f.add(SeverityError, typ.line, "invalid Type=%s: use one of %s", kind, strings.Join(serviceTypes, ", "))
	}
	oneshot := kind == "oneshot"
	restart, restarted := f.lastAssignment("Service", "Restart")
	policy := strings.TrimSpace(restart.value)
	if restarted && !slices.Contains(restarts, policy) {
		f.add(SeverityError, restart.line, "invalid Restart=%s: use one of %s", policy, strings.Join(restarts, ", "))
	}
	remains, _ := f.lastAssignment("Service", "RemainAfterExit")
	_, action := f.lastAssignment("Unit", "SuccessAction")
	switch {
	case len(starts) == 0 && len(f.effectiveAssignments("Service", "ExecStop")) == 0 && !action:
		f.add(SeverityError, 0, "systemd rejects %s: [Service] has no ExecStart=", f.name)
	case len(starts) == 0 && !action && !slices.Contains([]string{"yes", "true", "on", "1"}, strings.TrimSpace(remains.value)):
		f.add(SeverityError, 0, "systemd rejects %s: a [Service] without ExecStart= needs RemainAfterExit=yes", f.name)
	case len(starts) > 1 && !oneshot:
		f.add(SeverityError, starts[1].line, "systemd rejects %s: it has %d ExecStart=, and only Type=oneshot allows more than one", f.name, len(starts))
	}
	if oneshot && (policy == "always" || policy == "on-success") {
		f.add(SeverityError, restart.line, "systemd rejects %s: Restart=%s is not allowed with Type=oneshot; use on-failure", f.name, policy)
	}
	if _, bus := f.lastAssignment("Service", "BusName"); kind == "dbus" && !bus {
		f.add(SeverityError, typ.line, "systemd rejects %s: Type=dbus needs BusName=", f.name)
	}
}

// needs lists the dependency directives that require the other unit to exist.
var needs = []string{"Requires", "Requisite", "BindsTo", "Wants", "Upholds"}

// checkReferences finds dependencies on units that do not exist on nodes.
func (f *unitFileText) checkReferences() {
	for _, o := range f.options {
		if o.section != "Unit" || !slices.Contains(needs, o.name) {
			continue
		}
		for name := range strings.FieldsSeq(o.value) {
			if strings.ContainsAny(name, "%") || f.mayHaveUnit(name) {
				continue
			}
			what := "so nothing is started"
			if o.name == "Requires" || o.name == "Requisite" || o.name == "BindsTo" {
				what = "so the unit does not start unless the operating system has it"
			}
			f.findings = append(f.findings, f.text.Finding(RuleUnitUnknown, SeverityWarning, o.line,
				fmt.Sprintf("%s=%s: the profile neither contains nor installs this unit, %s", o.name, name, what)))
		}
	}
}

// mayHaveUnit reports whether a unit probably exists on nodes: the profile contains it, systemd
// or the operating system provides it, or a script mentions it or a package of the same
// name.
func (u units) mayHaveUnit(name string) bool {
	if at := strings.IndexByte(name, '@'); at >= 0 && u.files[name[:at+1]+path.Ext(name)] {
		return true
	}
	if u.files[name] || slices.Contains(systemUnits, name) {
		return true
	}
	switch ext := path.Ext(name); ext {
	case ".mount", ".device", ".slice", ".scope", ".swap":
		return true // systemd makes them of other things
	case ".target":
		return false
	}
	stem := strings.TrimSuffix(name, path.Ext(name))
	return strings.Contains(u.otherContents, stem)
}

// systemUnits are units that the operating systems of nodes have, systemd.special(7)
// and the services of their images.
var systemUnits = []string{
	"basic.target", "cryptsetup.target", "default.target", "emergency.target", "first-boot-complete.target", "getty.target", "graphical.target",
	"halt.target", "initrd.target", "kexec.target", "local-fs-pre.target", "local-fs.target", "multi-user.target", "network-online.target",
	"network-pre.target", "network.target", "nss-lookup.target", "nss-user-lookup.target", "paths.target", "poweroff.target", "reboot.target",
	"remote-fs-pre.target", "remote-fs.target", "rescue.target", "rpcbind.target", "shutdown.target", "sleep.target", "slices.target",
	"sockets.target", "swap.target", "sysinit.target", "system-update.target", "time-set.target", "time-sync.target", "timers.target", "umount.target",
	"cloud-config.target", "cloud-init.target",
	"chronyd.service", "cloud-config.service", "cloud-final.service", "cloud-init-local.service", "cloud-init.service", "containerd.service",
	"dbus.service", "dbus.socket", "docker.service", "docker.socket", "firewalld.service", "iscsid.service", "locksmithd.service",
	"NetworkManager-wait-online.service", "NetworkManager.service", "qemu-guest-agent.service", "rpc-statd.service", "rpcbind.service", "ssh.service",
	"sshd.service", "systemd-journald.service", "systemd-journald.socket", "systemd-logind.service", "systemd-modules-load.service",
	"systemd-networkd-wait-online.service", "systemd-networkd.service", "systemd-networkd.socket", "systemd-resolved.service",
	"systemd-sysctl.service", "systemd-timesyncd.service", "systemd-tmpfiles-setup.service", "systemd-udevd.service", "systemd-udev-settle.service",
	"update-engine.service", "vmtoolsd.service", "coreos-metadata.service",
}
