package conformance

import (
	"strings"
	"testing"
)

const ignition2 = `{"ignition":{"config":{},"security":{"tls":{}},"timeouts":{},"version":"2.3.0"},"networkd":{},` +
	`"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k1","k2"]}]},` +
	`"storage":{"files":[{"filesystem":"root","path":"/a","contents":{"source":"data:,old","verification":{}},"mode":420},` +
	`{"filesystem":"root","path":"/a","contents":{"source":"data:,a%20b%0A","verification":{}},"mode":493}]},` +
	`"systemd":{"units":[{"contents":"[Unit]\n","enabled":true,"name":"a.service","dropins":[{"name":"x.conf","contents":"[Service]\n"}]},{"enabled":false,"mask":true,"name":"b.service"}]}}`

const ignition3 = `{"ignition":{"version":"3.3.0"},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k1","k2"]}]},` +
	`"storage":{"files":[{"overwrite":true,"path":"/a","contents":{"source":"data:,%61%20b"},"mode":493}]},` +
	`"systemd":{"units":[{"enabled":false,"mask":true,"name":"b.service"},{"contents":"[Unit]","enabled":true,"name":"a.service","dropins":[{"name":"x.conf","contents":"[Service]"}]}]}}`

// Ignition documents of different versions are equal if they have the same meaning.
func TestCompareIgnition(t *testing.T) {
	CompareUserData(t, []byte(ignition2), []byte(ignition2))
	CompareUserData(t, []byte(ignition2), []byte(ignition3))
	for _, change := range [][2]string{
		{"3.3.0", "4.0.0"}, {`["k1","k2"]`, `["k2","k1"]`}, {"core", "root"}, {`"overwrite":true`, `"overwrite":false`}, {`"overwrite":true,`, ""},
		{"/a", "/b"}, {"data:,", "data:text/plain,"}, {"%61", "c"}, {"493", "420"}, {`"mode":493`, `"mode":493,"user":{"id":1}`}, {`"mode":493`, `"group":{}`},
		{`"enabled":true`, `"enabled":false`}, {`"enabled":false,`, ""}, {`"mask":true,`, ""}, {"[Unit]", "[Service]"}, {"x.conf", "y.conf"}, {`"[Service]"`, `"[Unit]"`},
		{"b.service", "c.service"}, {"b.service", "a.service"}, {`{"ignition"`, `{"networkd":{"units":[]},"ignition"`},
	} {
		changed := strings.Replace(ignition3, change[0], change[1], 1)
		if changed == ignition3 {
			t.Fatalf("%q is not in the document", change[0])
		}
		r := &recorder{TB: t}
		if CompareUserData(r, []byte(ignition2), []byte(changed)); !r.failed {
			t.Errorf("%q instead of %q makes no difference", change[1], change[0])
		}
	}
	r := &recorder{TB: t}
	if CompareUserData(r, []byte(ignition2), []byte(document)); !r.failed {
		t.Error("a cloud-config is taken for an Ignition document")
	}
}
