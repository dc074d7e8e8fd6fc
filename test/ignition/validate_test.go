package ignition_test

import (
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/ignition"
)

// document is right in the version that is put for VERSION; OWN is what only that
// version has.
const document = `{"ignition":{"version":"VERSION"},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["key"]}]},` +
	`"storage":{"files":[{OWN,"path":"/a","contents":{"source":"data:,a%20b"},"mode":420}]},` +
	`"systemd":{"units":[{"name":"a.service","enabled":true,"contents":"[Install]\nWantedBy=multi-user.target\n"}]}}`

func own(version string) string {
	if strings.HasPrefix(version, "2") {
		return `"filesystem":"root"`
	}
	return `"overwrite":true`
}

// Valid documents pass, and each mistake is found in each version.
func TestFindings(t *testing.T) {
	changes := map[string][2]string{
		"nothing":                      {},
		"an unknown key":               {`"mode":420`, `"mode":420,"sticky":true`},
		"an impossible mode":           {`"mode":420`, `"mode":42000`},
		"a relative path":              {`"/a"`, `"a"`},
		"a broken data URL":            {`a%20b`, `a%2`},
		"a unit without suffix":        {`"a.service"`, `"a"`},
		"a unit that is no unit":       {`[Install]\n`, `[Install\n`},
		"an enabled unit nobody wants": {`[Install]\nWantedBy`, `[Service]\nExecStart`},
		"no JSON":                      {`]}}`, `]`},
		"another version":              {`"version":"`, `"version":"9`},
	}
	for _, version := range []string{"2.3.0", "3.3.0", "3.4.0"} {
		var names []string
		var docs [][]byte
		for name, change := range changes {
			doc := strings.NewReplacer("VERSION", version, "OWN", own(version)).Replace(document)
			changed := strings.Replace(doc, change[0], change[1], 1)
			if changed == doc && name != "nothing" {
				t.Fatalf("%s changes nothing", name)
			}
			names, docs = append(names, name), append(docs, []byte(changed))
		}
		for i, findings := range ignition.Findings(t, docs...) {
			if got, want := len(findings) > 0, names[i] != "nothing"; got != want {
				t.Errorf("%s: %s: findings %q", version, names[i], findings)
			}
		}
	}
}
