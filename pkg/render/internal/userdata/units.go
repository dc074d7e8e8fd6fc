package userdata

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// unitDir is the folder for unit files of a machine's administrator, systemd.unit(5).
const unitDir = "/etc/systemd/system/"

// bootTarget is the target that starts enabled units. A drop-in with Wants= enables a unit
// without running systemctl, and without an [Install] section.
const bootTarget = "multi-user.target"

// unitName matches a valid name with one of systemd's suffixes, systemd.unit(5).
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)$`)

// dropInName matches the name of a file that systemd reads below a unit's folder.
var dropInName = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+\.conf$`)

// CheckUnitNames rejects names that would reach another place in the file system, or a shell.
// Flatcar's units are not written as files.
func CheckUnitNames(root string, units []osm.Unit) []*invalid.Error {
	var problems []*invalid.Error
	for i, u := range units {
		field := root + ".units[" + strconv.Itoa(i) + "]"
		if !unitName.MatchString(u.Name) {
			problems = append(problems, invalid.At(field+".name", "%q is not the name of a systemd unit: write one like \"name.service\"", u.Name))
		}
		for j, d := range u.DropIns {
			if !dropInName.MatchString(d.Name) {
				problems = append(problems, invalid.At(field+".dropIns["+strconv.Itoa(j)+"].name", "%q is not the name of a drop-in: write one like \"10-name.conf\"", d.Name))
			}
		}
	}
	return problems
}

// UnitFiles returns the files that install units on a system without Ignition: a masked unit is
// an empty file, and bootTarget has a Wants= for an enabled one.
func UnitFiles(units []osm.Unit) []File {
	var files []File
	add := func(path, content string) {
		files = append(files, File{Path: path, permissions: "0644", Content: content})
	}
	for _, u := range units {
		masked := IsTrue(u.Mask)
		switch {
		case masked:
			add(unitDir+u.Name, "")
		case u.Content != nil && *u.Content != "":
			add(unitDir+u.Name, *u.Content)
		}
		for _, d := range u.DropIns {
			add(unitDir+u.Name+".d/"+d.Name, d.Content)
		}
		if IsTrue(u.Enable) && !masked {
			add(unitDir+bootTarget+".d/10-"+u.Name+".conf", "[Unit]\nWants="+u.Name+"\n")
		}
	}
	return files
}

// startUnitsCommand returns the command that makes systemd read the units and start the enabled ones,
// without waiting for them: one of them can wait for this command.
func startUnitsCommand(units []osm.Unit) string {
	if len(units) == 0 {
		return ""
	}
	command := "systemctl daemon-reload"
	var names []string
	for _, u := range units {
		if IsTrue(u.Enable) && !IsTrue(u.Mask) {
			name := u.Name
			if strings.Contains(name, `\`) {
				name = "'" + name + "'" // CheckUnitNames has refused quotes
			}
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		command += " && systemctl start --no-block " + strings.Join(names, " ")
	}
	return command
}

func IsTrue(b *bool) bool { return b != nil && *b }

// ParsePermissions parses the digits of a decimal number as octal.
func ParsePermissions(permissions int32) (uint32, error) {
	digits := strconv.Itoa(int(permissions))
	mode, err := strconv.ParseUint(digits, 8, 32)
	if err != nil || mode > 0o7777 {
		return 0, fmt.Errorf("%s is not a file mode: its digits are read as octal, from 0 to 7777", digits)
	}
	return uint32(mode), nil
}
