package render

import (
	"regexp"
	"strconv"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// Where unit files of a machine's administrator live, systemd.unit(5).
const unitDir = "/etc/systemd/system/"

// bootTarget is what pulls in enabled units. A drop-in with Wants= enables a unit
// without running systemctl, and without an [Install] section.
const bootTarget = "multi-user.target"

// unitName is a valid name with one of systemd's suffixes, systemd.unit(5).
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)$`)

// dropInName is the name of a file that systemd reads below a unit's folder.
var dropInName = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+\.conf$`)

// checkUnits refuses names that would end up elsewhere in the file system, or in
// a shell. Flatcar's units are not written as files.
func checkUnits(root string, units []osm.Unit) []*invalid.Error {
	var problems []*invalid.Error
	for i, u := range units {
		field := root + ".units[" + strconv.Itoa(i) + "]"
		if !unitName.MatchString(u.Name) {
			problems = append(problems, invalid.At(field+".name", "%q is no name of a systemd unit: write one like \"name.service\"", u.Name))
		}
		for j, d := range u.DropIns {
			if !dropInName.MatchString(d.Name) {
				problems = append(problems, invalid.At(field+".dropIns["+strconv.Itoa(j)+"].name", "%q is no name of a drop-in: write one like \"10-name.conf\"", d.Name))
			}
		}
	}
	return problems
}

// unitFiles returns the files that install units on a system without Ignition: a
// masked unit is an empty file, an enabled one is wanted by bootTarget.
func unitFiles(units []osm.Unit) []cloudFile {
	var files []cloudFile
	add := func(path, content string) {
		files = append(files, cloudFile{path: path, permissions: "0644", content: content})
	}
	for _, u := range units {
		masked := isTrue(u.Mask)
		switch {
		case masked:
			add(unitDir+u.Name, "")
		case u.Content != nil && *u.Content != "":
			add(unitDir+u.Name, *u.Content)
		}
		for _, d := range u.DropIns {
			add(unitDir+u.Name+".d/"+d.Name, d.Content)
		}
		if isTrue(u.Enable) && !masked {
			add(unitDir+bootTarget+".d/10-"+u.Name+".conf", "[Unit]\nWants="+u.Name+"\n")
		}
	}
	return files
}

// startUnits returns the command that makes systemd notice units and starts the
// enabled ones, without waiting: one of them may wait for this very command.
func startUnits(units []osm.Unit) string {
	if len(units) == 0 {
		return ""
	}
	command := "systemctl daemon-reload"
	var names []string
	for _, u := range units {
		if isTrue(u.Enable) && !isTrue(u.Mask) {
			name := u.Name
			if strings.Contains(name, `\`) {
				name = "'" + name + "'" // checkUnits has refused quotes
			}
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		command += " && systemctl start --no-block " + strings.Join(names, " ")
	}
	return command
}

func isTrue(b *bool) bool { return b != nil && *b }
