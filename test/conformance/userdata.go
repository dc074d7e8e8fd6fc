package conformance

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// CompareUserData fails the test where two documents mean something else: both are
// cloud-configs, or both Ignition's, of whatever versions.
func CompareUserData(t testing.TB, want, got []byte) {
	t.Helper()
	if bytes.HasPrefix(want, []byte("{")) {
		compareIgnition(t, want, got)
		return
	}
	w, err := parseCloudConfig(want)
	if err != nil {
		t.Errorf("the expected user-data: %v", err)
		return
	}
	g, err := parseCloudConfig(got)
	if err != nil {
		t.Errorf("our user-data: %v", err)
		return
	}
	if err := w.installUnits(g); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(w.values, g.values); diff != "" {
		t.Errorf("user-data differs (-want +got):\n%s", diff)
	}
	compareFiles(t, w.files, g.files)
}

// cloudConfig is a parsed document: the files by path, all other keys as values.
type cloudConfig struct {
	files  map[string]file
	values map[string]any
}

type file struct {
	mode    uint64
	content string
}

func parseCloudConfig(doc []byte) (*cloudConfig, error) {
	if !bytes.HasPrefix(doc, []byte("#cloud-config\n")) {
		return nil, fmt.Errorf("its first line is not #cloud-config")
	}
	c := &cloudConfig{files: map[string]file{}}
	if err := yaml.Unmarshal(doc, &c.values); err != nil {
		return nil, err
	}
	list, _ := c.values["write_files"].([]any)
	delete(c.values, "write_files")
	for i, item := range list {
		f, err := parseFile(item)
		if err != nil {
			return nil, fmt.Errorf("write_files[%d]: %w", i, err)
		}
		c.files[item.(map[string]any)["path"].(string)] = f
	}
	c.normalize()
	return c, nil
}

func parseFile(item any) (file, error) {
	m, ok := item.(map[string]any)
	if !ok {
		return file{}, fmt.Errorf("is a %T", item)
	}
	permissions, ok := m["permissions"].(string)
	if _, isPath := m["path"].(string); !ok || !isPath {
		return file{}, fmt.Errorf("path %v or permissions %v are no strings", m["path"], m["permissions"])
	}
	mode, err := strconv.ParseUint(permissions, 8, 32)
	if err != nil {
		return file{}, err
	}
	content, _ := m["content"].(string) // null is empty
	switch m["encoding"] {
	case nil:
	case "b64":
		raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(content, "\n", ""))
		if err != nil {
			return file{}, err
		}
		content = string(raw)
	default:
		return file{}, fmt.Errorf("has encoding %v", m["encoding"])
	}
	return file{mode: mode, content: content}, nil
}

// normalize takes out what is no difference.
func (c *cloudConfig) normalize() {
	for key, value := range c.values {
		switch v := value.(type) {
		case nil: // absent, null and [] are equal
			delete(c.values, key)
		case []any:
			if len(v) == 0 {
				delete(c.values, key)
			}
		}
	}
	// Module scalars stay strings with us. The reference inserts them unquoted, so
	// that YAML makes another type of them: an empty password null, "1" an integer.
	for key, value := range c.values {
		switch key {
		case "runcmd", "bootcmd":
			for i, command := range value.([]any) {
				value.([]any)[i] = fmt.Sprint(command)
			}
		case "rh_subscription":
			textValues(value.(map[string]any))
		case "yum_repos":
			for _, repo := range value.(map[string]any) {
				repo := repo.(map[string]any)
				textValues(repo)
				// cloud-init's schema has this one as a boolean, which it writes as 0
				// or 1; the reference writes what the profile says.
				repo["enabled"] = strings.NewReplacer("true", "1", "false", "0").Replace(fmt.Sprint(repo["enabled"]))
			}
		}
	}
}

func textValues(m map[string]any) {
	for k, v := range m {
		if v == nil {
			v = ""
		}
		m[k] = fmt.Sprint(v)
	}
}

// installUnits compares the units of c, which the reference writes under `coreos`
// for every system, with what installs them in got. Deliberate difference: outside
// Flatcar, where nothing reads that key, they are files, and the bootstrap stage
// has one more command to start them. What is compared is taken out of both.
func (c *cloudConfig) installUnits(got *cloudConfig) error {
	coreos, ok := c.values["coreos"].(map[string]any)
	if _, flatcar := got.values["coreos"]; !ok || flatcar {
		if ok {
			trimUnits(coreos)
			trimUnits(got.values["coreos"].(map[string]any))
		}
		return nil
	}
	delete(c.values, "coreos")
	const dir = "/etc/systemd/system"
	expect := func(name, content string) {
		c.files[path.Join(dir, name)] = file{mode: 0o644, content: content}
	}
	var started []string
	units, _ := coreos["units"].([]any)
	for _, u := range units {
		u := u.(map[string]any)
		name := u["name"].(string)
		content, _ := u["content"].(string)
		masked, enabled := u["mask"] == true, u["enable"] == true
		switch {
		case masked:
			expect(name, "")
		case content != "":
			expect(name, content)
		}
		dropIns, _ := u["drop_ins"].([]any)
		for _, d := range dropIns {
			d := d.(map[string]any)
			expect(name+".d/"+d["name"].(string), d["content"].(string))
		}
		if enabled && !masked {
			expect("multi-user.target.d/10-"+name+".conf", "[Unit]\nWants="+name)
			started = append(started, name)
		}
	}
	commands, _ := got.values["runcmd"].([]any)
	wanted, _ := c.values["runcmd"].([]any)
	_, bootstrap := got.values["hostname"]
	if !bootstrap && len(commands) == len(wanted) {
		return nil // the provisioning stage, whose commands never run
	}
	if len(commands) == 0 {
		return fmt.Errorf("no command starts the units %v", started)
	}
	last := fmt.Sprint(commands[len(commands)-1])
	if !strings.Contains(last, "systemctl daemon-reload") || slices.ContainsFunc(started, func(s string) bool { return !strings.Contains(last, s) }) {
		return fmt.Errorf("the last command %q does not start the units %v", last, started)
	}
	got.values["runcmd"] = commands[:len(commands)-1]
	return nil
}

// trimUnits takes trailing line breaks off the contents of units, as of files.
func trimUnits(coreos map[string]any) {
	units, _ := coreos["units"].([]any)
	for _, u := range units {
		u := u.(map[string]any)
		trim(u)
		dropIns, _ := u["drop_ins"].([]any)
		for _, d := range dropIns {
			trim(d.(map[string]any))
		}
	}
}

func trim(m map[string]any) {
	if content, ok := m["content"].(string); ok {
		m["content"] = strings.TrimRight(content, "\n")
	}
}
