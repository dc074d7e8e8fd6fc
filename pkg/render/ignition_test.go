package render

import (
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
	validator "github.com/osm-gitops/osm-gitops/test/ignition"
)

// encodeIgnition encodes the bootstrap stage of a pool elsewhere than on AWS.
func encodeIgnition(t *testing.T, version string, config *osm.OSCConfig) []byte {
	t.Helper()
	doc := userdata.Ignition{Version: version, Stage: userdata.NewIgnitionStage(stageBootstrap, nil), Hostname: userdata.MachineName, Config: config}
	b, problems := doc.Encode()
	if len(problems) > 0 {
		t.Fatal(invalid.AsSingleError(problems))
	}
	return b
}

func inlineFile(path, data string) osm.File {
	return osm.File{Path: path, Permissions: 644, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: data}}}
}

// ignitionContents is what a document puts on a node: contents of files and units by path and
// name, and core's keys.
type ignitionContents struct {
	files, units map[string]string
	keys         []string
}

func readIgnition(t *testing.T, doc []byte) ignitionContents {
	t.Helper()
	var d struct {
		Passwd struct {
			Users []struct{ SSHAuthorizedKeys []string }
		}
		Storage struct {
			Files []struct {
				Path     string
				Contents struct{ Source string }
			}
		}
		Systemd struct {
			Units []struct{ Name, Contents string }
		}
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		t.Fatal(err)
	}
	c := ignitionContents{files: map[string]string{}, units: map[string]string{}}
	for _, f := range d.Storage.Files {
		source, ok := strings.CutPrefix(f.Contents.Source, "data:,")
		content, err := url.PathUnescape(source)
		if err != nil || !ok {
			t.Fatalf("file %q: source %q, %v", f.Path, f.Contents.Source, err)
		}
		c.files[f.Path] = content
	}
	for _, u := range d.Systemd.Units {
		c.units[u.Name] = u.Contents
	}
	for _, u := range d.Passwd.Users {
		c.keys = append(c.keys, u.SSHAuthorizedKeys...)
	}
	return c
}

// The documents to the byte: that of 2.3.0 has the form of operating-system-manager.
func TestIgnitionDocument(t *testing.T) {
	yes, content := true, "[Service]\nExecStart=/bin/echo <MACHINE_NAME>\n[Install]\nWantedBy=a.target"
	config := &osm.OSCConfig{
		Files: []osm.File{inlineFile("/etc/a", "a <b> 'c'\n"), {Path: "/opt/bin/b", Permissions: 755, Content: osm.FileContent{Inline: &osm.FileContentInline{Encoding: "b64"}}}},
		Units: []osm.Unit{
			{Name: "a.service", Enable: &yes, Content: &content, DropIns: []osm.DropIn{{Name: "10-b.conf", Content: "[Unit]\n"}}},
			{Name: "c.service", Mask: &yes},
		},
		UserSSHKeys:      []string{" ssh-ed25519 AAAA <a@b> ", "", "ssh-ed25519 AAAA <a@b>", "k&2"},
		CloudInitModules: &osm.CloudInitModule{RunCMD: []string{"ignored"}},
	}
	const users = `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["ssh-ed25519 AAAA <a@b>","k&2"]}]}`
	const units = `"systemd":{"units":[{"contents":"[Service]\nExecStart=/bin/echo <MACHINE_NAME>\n[Install]\nWantedBy=a.target",` +
		`"dropins":[{"contents":"[Unit]\n","name":"10-b.conf"}],"enabled":true,"name":"a.service"},{"enabled":false,"mask":true,"name":"c.service"}]}`
	const three = users + `,"storage":{"files":[` +
		`{"overwrite":true,"path":"/etc/machine-name","contents":{"source":"data:,%3CMACHINE_NAME%3E"},"mode":384},` +
		`{"overwrite":true,"path":"/etc/a","contents":{"source":"data:,a%20%3Cb%3E%20'c'%0A"},"mode":420},` +
		`{"overwrite":true,"path":"/opt/bin/b","contents":{"source":"data:,"},"mode":493}]},` + units + `}`
	want := map[string]string{
		"3.3.0": `{"ignition":{"version":"3.3.0"},` + three,
		"3.4.0": `{"ignition":{"version":"3.4.0"},` + three,
		"2.3.0": `{"ignition":{"config":{},"security":{"tls":{}},"timeouts":{},"version":"2.3.0"},"networkd":{},` + users + `,"storage":{"files":[` +
			`{"filesystem":"root","path":"/etc/machine-name","contents":{"source":"data:,%3CMACHINE_NAME%3E","verification":{}},"mode":384},` +
			`{"filesystem":"root","path":"/etc/a","contents":{"source":"data:,a%20%3Cb%3E%20'c'%0A","verification":{}},"mode":420},` +
			`{"filesystem":"root","path":"/opt/bin/b","contents":{"source":"data:,","verification":{}},"mode":493}]},` + units + `}`,
	}
	for _, version := range userdata.IgnitionVersions {
		got := encodeIgnition(t, version, config)
		if diff := cmp.Diff(want[version], string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		validator.Validate(t, got)
	}

	// Nothing at all is a document too.
	doc := userdata.Ignition{Version: "2.3.0", Stage: userdata.NewIgnitionStage(stageProvisioning, nil), Config: &osm.OSCConfig{}}
	got, problems := doc.Encode()
	if want := `{"ignition":{"config":{},"security":{"tls":{}},"timeouts":{},"version":"2.3.0"},"networkd":{},"passwd":{},"storage":{},"systemd":{}}`; string(got) != want || len(problems) > 0 {
		t.Errorf("an empty document is %s, %v", got, problems)
	}
}

// nastyPieces are the parts of texts that test whether every text arrives unchanged.
var nastyPieces = []string{
	`"`, `'`, `\`, "\t", "\n", "\n\n", " ", "  ", "%", "%3C", "%25", "+", "&", "<", ">", "{{", "}}", "#", ":", ",", ";", "=", "?", "/", "EOF", "\r\n", "\x00", "\x01", "\x1f", "\x7f",
	"ü", "日本", "🙂", "\u0085", "\u2028", "\ufeff", userdata.MachineName, "%3CMACHINE_NAME%3E", "data:,", `"source":"data:,"`, `"sshAuthorizedKeys":["-"]`, "a", "Z", "0", "-_.!~*'()",
}

// The content of a file, a unit or a key arrives unchanged, in every version.
func TestIgnitionContents(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test wants the same texts each time
	random := func() string {
		var b strings.Builder
		for range rnd.IntN(12) {
			b.WriteString(nastyPieces[rnd.IntN(len(nastyPieces))])
		}
		return b.String()
	}
	want := ignitionContents{files: map[string]string{userdata.MachineNameFile: userdata.MachineName}, units: map[string]string{}}
	config := &osm.OSCConfig{}
	var ascii strings.Builder
	for c := range byte(0x80) {
		ascii.WriteByte(c)
	}
	texts := append([]string{"", " leading", "\tleading", "\nleading", "trailing\n\n", "trailing ", ascii.String()}, nastyPieces...)
	for range 100 {
		texts = append(texts, random())
	}
	for i, text := range texts {
		path := "/f/" + strconv.Itoa(i)
		config.Files, want.files[path] = append(config.Files, inlineFile(path, text)), text
	}
	for i, text := range nastyPieces {
		// Ignition parses units, so the text has to be a value in one.
		content := "[Unit]\nDescription=" + strings.NewReplacer("\n", "", "\r", "", `\`, `\\`).Replace(text) + "\n[Service]\n"
		name := strings.Repeat("u", i+1) + ".service"
		config.Units, want.units[name] = append(config.Units, osm.Unit{Name: name, Content: &content}), content
		if key := "ssh-rsa AAAA " + text + "."; strings.TrimSpace(key) == key {
			config.UserSSHKeys, want.keys = append(config.UserSSHKeys, key), append(want.keys, key)
		}
	}
	for _, version := range userdata.IgnitionVersions {
		doc := encodeIgnition(t, version, config)
		if diff := cmp.Diff(want, readIgnition(t, doc), cmp.AllowUnexported(ignitionContents{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		validator.Validate(t, doc)
	}
}

// blankLine matches the lines that machine-controller empties.
var blankLine = regexp.MustCompile(`(?m)^[ \t]+$`)

// machine-controller puts a machine's name into the text of the document: the name
// arrives in files, units and keys, and damages nothing else.
func TestIgnitionMachineName(t *testing.T) {
	content := "[Service]\nExecStart=/bin/echo <MACHINE_NAME>\n"
	config := &osm.OSCConfig{
		Files: []osm.File{
			inlineFile("/a", "#!/bin/sh\n \nname=<MACHINE_NAME>\n"), inlineFile("/b/<MACHINE_NAME>", "<MACHINE_NAME><MACHINE_NAME>"),
			// After decoding, none of these is a placeholder.
			inlineFile("/c", "%3CMACHINE_NAME%3E \\u003cMACHINE_NAME\\u003e &lt;MACHINE_NAME&gt;\n"),
		},
		Units:       []osm.Unit{{Name: "a.service", Content: &content}},
		UserSSHKeys: []string{"ssh-ed25519 AAAA <MACHINE_NAME>"},
	}
	const name = "worker-6c9f-x2v.example"
	want := ignitionContents{
		files: map[string]string{
			userdata.MachineNameFile: name, "/a": "#!/bin/sh\n \nname=" + name + "\n", "/b/" + name: name + name,
			"/c": "%3CMACHINE_NAME%3E \\u003cMACHINE_NAME\\u003e &lt;MACHINE_NAME&gt;\n",
		},
		units: map[string]string{"a.service": "[Service]\nExecStart=/bin/echo " + name + "\n"},
		keys:  []string{"ssh-ed25519 AAAA " + name},
	}
	for _, version := range userdata.IgnitionVersions {
		doc := strings.ReplaceAll(string(encodeIgnition(t, version, config)), "<MACHINE_NAME>", name)
		doc = strings.ReplaceAll(doc, "%3CMACHINE_NAME%3E", url.QueryEscape(name))
		doc = blankLine.ReplaceAllString(doc, "")
		if diff := cmp.Diff(want, readIgnition(t, []byte(doc)), cmp.AllowUnexported(ignitionContents{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		validator.Validate(t, []byte(doc))
	}
}

// The last of files with one path counts, in its own place.
func TestIgnitionDuplicates(t *testing.T) {
	config := &osm.OSCConfig{Files: []osm.File{
		inlineFile("/a", "first"), inlineFile("/b", "b"), inlineFile("//etc/./x/../a", "clean"), inlineFile("/a", "second"), inlineFile("/etc/a", "last"), inlineFile(userdata.MachineNameFile, "mine"),
	}}
	want := map[string]string{"/b": "b", "/a": "second", "/etc/a": "last", userdata.MachineNameFile: "mine"}
	for _, version := range userdata.IgnitionVersions {
		doc := encodeIgnition(t, version, config)
		if diff := cmp.Diff(want, readIgnition(t, doc).files); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		at := func(path string) int { return strings.Index(string(doc), `"path":"`+path+`"`) }
		if at("/b") > at("/a") || at("/a") > at("/etc/a") || at("/etc/a") > at(userdata.MachineNameFile) {
			t.Errorf("%s: not in the order of the last ones: %s", version, doc)
		}
		validator.Validate(t, doc)
	}
}

// Digits are octal. Butane takes some of these modes for a slip; they are not.
func TestIgnitionModes(t *testing.T) {
	for permissions, want := range map[int32]string{644: "420", 600: "384", 764: "500", 620: "400", 44: "36", 777: "511"} {
		f := inlineFile("/a", "")
		f.Permissions = permissions
		for _, version := range userdata.IgnitionVersions {
			if doc := encodeIgnition(t, version, &osm.OSCConfig{Files: []osm.File{f}}); !strings.Contains(string(doc), `"mode":`+want+`}]`) {
				t.Errorf("%s: %d: %s, want mode %s", version, permissions, doc, want)
			}
		}
	}
}

// An edge machine has the name of its pool, only in the hostname of the document.
func TestIgnitionEdge(t *testing.T) {
	doc := userdata.Ignition{
		Version: "3.3.0", Stage: userdata.NewIgnitionStage(stageBootstrap, nil), Hostname: Pool{Name: "edge-1", CloudProvider: "edge"}.machineNameText(stageBootstrap),
		Config: &osm.OSCConfig{Files: []osm.File{inlineFile("/a", userdata.MachineName)}},
	}
	b, problems := doc.Encode()
	if len(problems) > 0 {
		t.Fatal(invalid.AsSingleError(problems))
	}
	if diff := cmp.Diff(map[string]string{userdata.MachineNameFile: "edge-1", "/a": userdata.MachineName}, readIgnition(t, b).files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// One stage serves many renderings at a time, each with its own contents.
func TestStageIsShared(t *testing.T) {
	stage := userdata.NewIgnitionStage(stageBootstrap, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 20 {
				content := strconv.Itoa(i) + "." + strconv.Itoa(n)
				doc := userdata.Ignition{
					Version: userdata.IgnitionVersions[n%3], Stage: stage,
					Config: &osm.OSCConfig{Files: []osm.File{inlineFile("/a", content)}, UserSSHKeys: []string{content}},
				}
				b, problems := doc.Encode()
				if text := string(b); len(problems) > 0 || !strings.Contains(text, `"data:,`+content+`"`) || !strings.Contains(text, `["`+content+`"]`) {
					t.Errorf("%v: %s", problems, b)
				}
			}
		})
	}
	wg.Wait()
}
