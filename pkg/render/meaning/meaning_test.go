package meaning

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

// A difference names what differs, and never says what stands there.
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
		got, err := Compare([]byte(reference), []byte(c.ours))
		var what []string
		for _, d := range got {
			what = append(what, d.What)
		}
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

// What cannot be read is an error that names the document and quotes nothing of it.
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

// FuzzCompare: whatever stands in a cluster, comparing it ends without a panic, and a
// document that can be read differs in nothing from itself.
func FuzzCompare(f *testing.F) {
	f.Add([]byte(reference), []byte(ignition2))
	f.Add([]byte(ignition2), []byte(reference))
	f.Add([]byte("#cloud-config\ncoreos: {units: [{name: a, mask: true, drop_ins: [{name: x, content: y}]}]}\nyum_repos: {a: {enabled: 1}}\nrh_subscription: {a: }\n"), []byte(reference))
	f.Add([]byte("#cloud-config\ncoreos: [1]\nyum_repos: 1\nruncmd: {a: b}\n"), []byte("#cloud-config\nhostname: a\nruncmd: [systemctl daemon-reload]"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		_, _ = Compare(a, b)
		if strings.Contains(string(a), "coreos") {
			return // a key that outside Flatcar means something else on both sides
		}
		if got, err := Compare(a, a); err == nil && len(got) > 0 && !strings.Contains(fmt.Sprint(got), "NaN") {
			t.Errorf("it differs from itself: %v", got)
		}
	})
}
