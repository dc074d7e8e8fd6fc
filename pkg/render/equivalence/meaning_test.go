package equivalence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	reference = "#cloud-config\nhostname: <MACHINE_NAME>\nssh_authorized_keys:\nwrite_files:\n" +
		"- {path: /etc/a, permissions: '0644', content: canary}\n- {path: /etc/b.toml, permissions: '0600', encoding: b64, content: \"YSA9IDEK\"}\nruncmd:\n- true\n"
	ignition2 = `{"ignition":{"config":{},"security":{"tls":{}},"timeouts":{},"version":"2.3.0"},"networkd":{},"passwd":{},"storage":{"files":[` +
		`{"filesystem":"root","path":"/etc/a","contents":{"source":"data:,canary%0A","verification":{}},"mode":420}]},"systemd":{"units":[{"name":"a.service","enabled":true,"contents":"[Unit]\n"}]}}`
)

// A difference names the part that differs, and never contains its value.
func TestCompareNames(t *testing.T) {
	for name, c := range map[string]struct {
		ours string
		want []string
	}{
		"nothing":              {reference, nil},
		"a file's content":     {strings.Replace(reference, "canary", "other", 1), []string{`file "/etc/a"`}},
		"a file's mode":        {strings.Replace(reference, "0644", "0640", 1), []string{`the mode of file "/etc/a"`}},
		"toml in another form": {strings.Replace(reference, "YSA9IDEK", "YT0x", 1), nil},
		"a file and a key": {strings.NewReplacer("/etc/a", "/etc/c", "runcmd", "bootcmd").Replace(reference),
			[]string{`key "bootcmd"`, `key "runcmd"`, `file "/etc/a"`, `file "/etc/c"`}},
	} {
		what, err := whatDiffers(reference, c.ours)
		if err != nil || !slices.Equal(what, c.want) {
			t.Errorf("%s: got %q (err %v), want %q", name, what, err, c.want)
		}
	}
}

// A command that is a list in the reference's document is the line that does the same; where
// that is not certain it differs, and the document is replaced.
func TestCompareCommands(t *testing.T) {
	document := func(item string) []byte {
		return []byte("#cloud-config\nruncmd:\n- " + item + "\nbootcmd:\n- " + item + "\n")
	}
	for reference, c := range map[string]struct {
		ours string // a text
		same bool
	}{
		`"echo a: b"`:          {`echo a: b`, true},
		`"echo c: d"`:          {`"echo c: d"`, false},
		`[sh, -c, "echo a"]`:   {`sh -c 'echo a'`, true},
		`[sh, -c, 'echo a']`:   {`[sh, -c, "echo a"]`, false},
		`[sh -c echo a]`:       {`[sh -c echo a]`, false},
		`[sleep, 5, a5, -n]`:   {`sleep 5 a5 -n`, true},
		`[chmod, 0755, /x]`:    {`chmod 0755 /x`, false},
		`[echo, yes]`:          {`echo yes`, false},
		`[echo, true]`:         {`echo true`, false},
		`[tool, 1.10]`:         {`tool 1.10`, false},
		`[ping, 10.0.0.1, -4]`: {`ping 10.0.0.1 -4`, true},
		`[]`:                   {``, true},
		`[a, [b]]`:             {`a b`, false},
		`echo a: b`:            {`echo a: b`, false},
	} {
		got, err := Compare(document(reference), document(strconv.Quote(c.ours)))
		if err != nil || (len(got) == 0) != c.same {
			t.Errorf("%s and %q: got %v (err %v), want the same: %t", reference, c.ours, got, err, c.same)
		}
	}
}

// Units that the reference lists under coreos are files in our document, and one more
// command starts them.
func TestCompareUnits(t *testing.T) {
	const units = "#cloud-config\nhostname: a\ncoreos:\n  units:\n" +
		"  - {name: a.service, enable: true, content: \"[Service]\\n\", drop_ins: [{name: 10-a.conf, content: \"[Unit]\"}]}\n" +
		"  - {name: b.service, enable: true, mask: true, content: \"[Service]\"}\n  - {name: c.service, enable: false}\n"
	const files = "#cloud-config\nhostname: a\nwrite_files:\n" +
		"- {path: /etc/systemd/system/a.service, permissions: '0644', content: \"[Service]\"}\n" +
		"- {path: /etc/systemd/system/a.service.d/10-a.conf, permissions: '0644', content: \"[Unit]\"}\n" +
		"- {path: /etc/systemd/system/b.service, permissions: '0644'}\n" +
		"- {path: /etc/systemd/system/multi-user.target.d/10-a.service.conf, permissions: '0644', content: \"[Unit]\\nWants=a.service\"}\n"
	const start = "systemctl daemon-reload && systemctl start a.service"
	const command = `the command that starts units`
	for name, c := range map[string]struct {
		reference, ours string
		want            []string
	}{
		"the only command":           {units, files + "runcmd: [" + start + "]\n", nil},
		"the last of two commands":   {units + "runcmd: ['true']\n", files + "runcmd: ['true', " + start + "]\n", nil},
		"another command before it":  {units + "runcmd: ['true']\n", files + "runcmd: ['false', " + start + "]\n", []string{`key "runcmd"`}},
		"no command":                 {units, files, []string{command}},
		"no start of the unit":       {units, files + "runcmd: [systemctl daemon-reload]\n", []string{command, `key "runcmd"`}},
		"no reload":                  {units, files + "runcmd: [systemctl start a.service]\n", []string{command, `key "runcmd"`}},
		"a masked unit with content": {units, strings.Replace(files, "b.service, permissions: '0644'", "b.service, permissions: '0644', content: x", 1) + "runcmd: [" + start + "]\n", []string{`file "/etc/systemd/system/b.service"`}},
		"later stages start nothing": {strings.Replace(units, "hostname: a\n", "", 1), strings.Replace(files, "hostname: a\n", "", 1), nil},
		"Flatcar, trailing line break": {"#cloud-config\ncoreos: {units: [{name: a, content: \"x\\n\", drop_ins: [{content: \"y\\n\"}]}]}\n",
			"#cloud-config\ncoreos: {units: [{name: a, content: x, drop_ins: [{content: y}]}]}\n", nil},
		"Flatcar, another unit": {"#cloud-config\ncoreos: {units: [{name: a}]}\n", "#cloud-config\ncoreos: {units: [{name: b}]}\n", []string{`key "coreos"`}},
	} {
		if got, err := whatDiffers(c.reference, c.ours); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q (err %v), want %q", name, got, err, c.want)
		}
	}
	if got, err := whatDiffers("#cloud-config\ncoreos: {units: [{enable: true}]}\n", files); err == nil {
		t.Errorf("a unit without a name: got %q, want an error", got)
	}
}

// Values that the reference writes without quotes equal ours with them.
func TestCompareForms(t *testing.T) {
	const kubeconfig = "#cloud-config\nwrite_files:\n- {path: /etc/kubeconfig, permissions: '0600', content: '%s'}\n"
	const toml = "#cloud-config\nwrite_files:\n- {path: /etc/a.toml, permissions: '0600', content: '%s'}\n"
	for name, c := range map[string]struct {
		reference, ours string
		want            []string
	}{
		"an empty subscription value": {"#cloud-config\nrh_subscription: {password: }\n", "#cloud-config\nrh_subscription: {password: \"\"}\n", nil},
		"a number as text":            {"#cloud-config\nrh_subscription: {org: 1}\n", "#cloud-config\nrh_subscription: {org: \"1\"}\n", nil},
		"another subscription value":  {"#cloud-config\nrh_subscription: {org: a}\n", "#cloud-config\nrh_subscription: {org: b}\n", []string{`key "rh_subscription"`}},
		"a boolean as a number":       {"#cloud-config\nyum_repos: {a: {enabled: true}}\n", "#cloud-config\nyum_repos: {a: {enabled: 1}}\n", nil},
		"an empty list is absent":     {"#cloud-config\nruncmd: []\nbootcmd:\n", "#cloud-config\n", nil},
		"kubeconfig, other form":      {fmt.Sprintf(kubeconfig, "{kind: Config, users: []}"), fmt.Sprintf(kubeconfig, "{users: [], kind: Config}"), nil},
		"kubeconfig, other user": {fmt.Sprintf(kubeconfig, "{kind: Config, users: [a]}"), fmt.Sprintf(kubeconfig, "{users: [b], kind: Config}"),
			[]string{`file "/etc/kubeconfig"`}},
		"another kind, other form": {fmt.Sprintf(kubeconfig, "{kind: Pod, a: b}"), fmt.Sprintf(kubeconfig, "{a: b, kind: Pod}"), []string{`file "/etc/kubeconfig"`}},
		"broken toml, the same":    {fmt.Sprintf(toml, "a ="), fmt.Sprintf(toml, "a ="), nil},
		"broken toml, another":     {fmt.Sprintf(toml, "a ="), fmt.Sprintf(toml, "b ="), []string{`file "/etc/a.toml"`}},
	} {
		if got, err := whatDiffers(c.reference, c.ours); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q (err %v), want %q", name, got, err, c.want)
		}
	}
}

// Documents of Ignition are compared across its versions.
func TestCompareIgnition(t *testing.T) {
	const users = `"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["a"]}]}`
	reference := strings.Replace(ignition2, `"passwd":{}`, users, 1)
	ignition3 := strings.NewReplacer("2.3.0", "3.1.0", `"filesystem":"root"`, `"overwrite":true`).Replace(reference)
	for name, c := range map[string]struct {
		old, new string // replaced in ignition3
		want     []string
		wantErr  string
	}{
		"version 3":                   {},
		"a file's content":            {old: "canary", new: "other", want: []string{`file "/etc/a"`}},
		"a file's content as UTF-8":   {old: "canary", new: "c%61nary"},
		"a file's mode":               {old: "420", new: "0", want: []string{`the mode of file "/etc/a"`}},
		"a disabled unit":             {old: `"enabled":true`, new: `"enabled":false`, want: []string{`unit "a.service"`}},
		"a unit's line break":         {old: `[Unit]\n`, new: `[Unit]`},
		"a drop-in":                   {old: `"enabled"`, new: `"dropins":[{"name":"a","contents":"b"}],"enabled"`, want: []string{`unit "a.service"`}},
		"another key":                 {old: `["a"]`, new: `["b"]`, want: []string{"keys of core"}},
		"another user":                {old: `"core"`, new: `"root"`, wantErr: `there is a user "root"`},
		"one unit twice":              {old: `"units":[`, new: `"units":[{"name":"a.service"},`, wantErr: `unit "a.service" occurs twice`},
		"no mode":                     {old: `,"mode":420`, new: ``, wantErr: "has no mode"},
		"a negative mode":             {old: `420`, new: `-1`, wantErr: "has no mode"},
		"a file that overwrites none": {old: `"overwrite":true,`, new: ``, wantErr: "does not overwrite"},
		"a file that must not exist":  {old: `"overwrite":true`, new: `"overwrite":false`, wantErr: "does not overwrite"},
		"an unknown version":          {old: "3.1.0", new: "4.0.0", wantErr: `its version is "4.0.0"`},
		"version 2 elsewhere":         {old: `"overwrite":true`, new: `"filesystem":"oem"`, wantErr: "does not overwrite"},
	} {
		got, err := whatDiffers(reference, strings.Replace(ignition3, c.old, c.new, 1))
		switch {
		case c.wantErr != "":
			if err == nil || !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("%s: got %q (err %v), want the error %q", name, got, err, c.wantErr)
			}
		case err != nil || !slices.Equal(got, c.want):
			t.Errorf("%s: got %q (err %v), want %q", name, got, err, c.want)
		}
	}
	if _, err := whatDiffers(reference, strings.Replace(reference, "root", "oem", 1)); err == nil || !strings.Contains(err.Error(), `file system "oem"`) {
		t.Errorf("version 2 in another file system: got the error %v", err)
	}
}

func whatDiffers(reference, ours string) ([]string, error) {
	got, err := Compare([]byte(reference), []byte(ours))
	var what []string
	for _, d := range got {
		what = append(what, d.What)
	}
	return what, err
}

// If a document cannot be read, the error names the document and quotes nothing.
func TestCompareUnreadable(t *testing.T) {
	for _, bad := range []string{
		"", "canary", "#cloud-config\n- canary: [", "#cloud-config\nwrite_files: canary", "#cloud-config\nwrite_files: [canary]",
		"#cloud-config\nwrite_files: [{path: /a, permissions: '0644', encoding: canary}]",
		"#cloud-config\nwrite_files: [{path: /a, permissions: '0644', encoding: b64, content: '%'}]",
		strings.Replace(ignition2, "data:,canary", "canary", 1), strings.Replace(ignition2, "data:,canary", "data:,canary%zz", 1),
		strings.Replace(ignition2, "420", "-1", 1), `{"canary"`,
	} {
		for _, pair := range [][2]string{{bad, reference}, {reference, bad}, {bad, ignition2}, {ignition2, bad}} {
			if got, err := Compare([]byte(pair[0]), []byte(pair[1])); err == nil {
				t.Errorf("%q: got %v", pair, got)
			} else if strings.Contains(strings.ReplaceAll(err.Error(), `unknown field "canary"`, ""), "canary") {
				t.Errorf("%q: the error quotes it: %v", pair, err)
			}
		}
	}
}

// FuzzCompare: comparing any document ends without a panic, and a document that can be read
// does not differ from itself.
func FuzzCompare(f *testing.F) {
	f.Add([]byte(reference), []byte(ignition2))
	f.Add([]byte(ignition2), []byte(reference))
	f.Add([]byte("#cloud-config\ncoreos: {units: [{name: a, mask: true, drop_ins: [{name: x, content: y}]}]}\nyum_repos: {a: {enabled: 1}}\nrh_subscription: {a: }\n"), []byte(reference))
	f.Add([]byte("#cloud-config\ncoreos: [1]\nyum_repos: 1\nruncmd: {a: b}\n"), []byte("#cloud-config\nhostname: a\nruncmd: [systemctl daemon-reload]"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		_, _ = Compare(a, b)
		if strings.Contains(string(a), "coreos") {
			return // a key that has another meaning outside of Flatcar, in both documents
		}
		if got, err := Compare(a, a); err == nil && len(got) > 0 && !strings.Contains(fmt.Sprint(got), "NaN") {
			t.Errorf("it differs from itself: %v", got)
		}
	})
}
