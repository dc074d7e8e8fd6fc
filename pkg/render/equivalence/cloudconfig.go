package equivalence

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

func parseCloudConfig(text []byte) (*document, error) {
	if !bytes.HasPrefix(text, []byte("#cloud-config\n")) {
		return nil, errors.New("its first line is not #cloud-config")
	}
	c := &document{files: map[string]file{}}
	if err := yaml.Unmarshal(text, &c.values); err != nil {
		return nil, errors.New("invalid YAML") // the cause would quote it
	}
	if c.values == nil {
		c.values = map[string]any{}
	}
	files, ok := c.values["write_files"].([]any)
	if !ok && c.values["write_files"] != nil {
		return nil, errors.New("write_files is not a list")
	}
	for i, item := range files {
		at, f, err := parseFile(item)
		if err != nil {
			return nil, fmt.Errorf("write_files[%d]: %w", i, err)
		}
		c.files[at] = f
	}
	delete(c.values, "write_files")
	c.normalize()
	return c, nil
}

func parseFile(item any) (at string, f file, err error) {
	m := asMapping(item)
	at, isPath := m["path"].(string)
	permissions, isText := m["permissions"].(string)
	if !isPath || !isText {
		return "", f, errors.New("path or permissions are not strings")
	}
	mode, err := strconv.ParseUint(permissions, 8, 32)
	if err != nil {
		return "", f, fmt.Errorf("permissions: %w", err)
	}
	content, _ := m["content"].(string) // null is empty
	switch m["encoding"] {
	case nil:
	case "b64":
		raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(content, "\n", ""))
		if err != nil {
			return "", f, fmt.Errorf("content: %w", err)
		}
		content = string(raw)
	default:
		return "", f, errors.New("encoding is neither absent nor b64")
	}
	return at, file{mode: mode, content: content}, nil
}

// normalize removes the deliberate differences.
func (d *document) normalize() {
	for key, value := range d.values {
		switch v := value.(type) {
		case nil: // absent, null and [] are equal
			delete(d.values, key)
		case []any:
			if len(v) == 0 {
				delete(d.values, key)
			}
		}
	}
	// Module scalars stay strings in ours. operating-system-manager inserts them unquoted, so
	// that YAML decodes them to another type: an empty password to null, "1" to an integer.
	for _, key := range []string{"runcmd", "bootcmd"} {
		for i, item := range asList(d.values[key]) {
			asList(d.values[key])[i] = shellLine(item)
		}
	}
	stringifyValues(asMapping(d.values["rh_subscription"]))
	for _, repo := range asMapping(d.values["yum_repos"]) {
		repo := asMapping(repo)
		stringifyValues(repo)
		// This key is a boolean in cloud-init's schema, which it writes as 0 or 1;
		// operating-system-manager writes the profile's text.
		if enabled, ok := repo["enabled"]; ok {
			repo["enabled"] = strings.NewReplacer("true", "1", "false", "0").Replace(fmt.Sprint(enabled))
		}
	}
}

func stringifyValues(m map[string]any) {
	for k, v := range m {
		if v == nil {
			v = ""
		}
		m[k] = fmt.Sprint(v)
	}
}

// systemdUnits is the folder with the files of units.
const systemdUnits = "/etc/systemd/system"

// compareAndRemoveUnits compares the units of d, which operating-system-manager writes under `coreos`
// for every system, with the parts of our document that install them. Deliberate difference:
// outside of Flatcar, where nothing reads that key, our units are files, and the bootstrap
// stage has one more command to start them. compareAndRemoveUnits removes the compared parts from both
// documents, or adds the units to d as files.
func (d *document) compareAndRemoveUnits(ours *document) (*Difference, error) {
	coreos, ok := d.values["coreos"]
	if !ok {
		return nil, nil
	}
	if flatcar, ok := ours.values["coreos"]; ok {
		trimUnitNewlines(coreos)
		trimUnitNewlines(flatcar)
		return nil, nil
	}
	delete(d.values, "coreos")
	var started []string
	for _, u := range asList(asMapping(coreos)["units"]) {
		u := asMapping(u)
		name := asText(u["name"])
		if name == "" {
			return nil, errors.New("a unit has no name")
		}
		content := asText(u["content"])
		masked, enabled := u["mask"] == true, u["enable"] == true
		if masked {
			d.addUnitFile(name, "")
		} else if content != "" {
			d.addUnitFile(name, content)
		}
		for _, dropIn := range asList(u["drop_ins"]) {
			d.addUnitFile(name+".d/"+asText(asMapping(dropIn)["name"]), asText(asMapping(dropIn)["content"]))
		}
		if enabled && !masked {
			d.addUnitFile("multi-user.target.d/10-"+name+".conf", "[Unit]\nWants="+name)
			started = append(started, name)
		}
	}
	return d.compareAndRemoveStartCommand(ours, started), nil
}

// addUnitFile adds a file that installs a unit.
func (d *document) addUnitFile(name, content string) {
	d.files[path.Join(systemdUnits, name)] = file{mode: 0o644, content: content}
}

// compareAndRemoveStartCommand compares the command that starts units, and removes it from ours.
func (d *document) compareAndRemoveStartCommand(ours *document, started []string) *Difference {
	commands, wanted := asList(ours.values["runcmd"]), asList(d.values["runcmd"])
	_, bootstrap := ours.values["hostname"]
	if !bootstrap && len(commands) == len(wanted) {
		return nil // the provisioning stage, whose commands never run
	}
	last := ""
	if len(commands) > 0 {
		last = fmt.Sprint(commands[len(commands)-1])
	}
	if !strings.Contains(last, "systemctl daemon-reload") || slices.ContainsFunc(started, func(s string) bool { return !strings.Contains(last, s) }) {
		return &Difference{What: "the command that starts units", Reference: started, Ours: last}
	}
	if ours.values["runcmd"] = commands[:len(commands)-1]; len(commands) == 1 {
		delete(ours.values, "runcmd")
	}
	return nil
}

// trimUnitNewlines removes trailing line breaks from the contents of units, as for files.
func trimUnitNewlines(coreos any) {
	for _, u := range asList(asMapping(coreos)["units"]) {
		trimContentNewlines(asMapping(u))
		for _, d := range asList(asMapping(u)["drop_ins"]) {
			trimContentNewlines(asMapping(d))
		}
	}
}

func trimContentNewlines(m map[string]any) {
	if content, ok := m["content"].(string); ok {
		m["content"] = strings.TrimRight(content, "\n")
	}
}

// asList returns a decoded value as a list, empty if it has another type. asMapping and asText do
// the same for their types.
func asList(v any) []any {
	l, _ := v.([]any)
	return l
}

func asMapping(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func asText(v any) string {
	s, _ := v.(string)
	return s
}
