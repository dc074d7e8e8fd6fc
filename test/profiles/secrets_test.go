package profiles_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
)

// secrets are all credentials of the combinations, by what they are.
var secrets = map[string]string{
	"the node's token": matrix.NodeToken, "the bootstrap token": matrix.BootstrapToken, "the proxy's password": matrix.ProxyPassword,
	"a registry's password": matrix.RegistryPassword, "a registry's identity token": matrix.RegistryIdentity, "a mirror's password": matrix.MirrorPassword,
	"RHEL's password": matrix.RHELPassword, "RHEL's offline token": matrix.RHELOffline, "RHEL's activation key": matrix.RHELActivation,
	"the cloud configuration's secret": matrix.CloudSecret,
}

// nowhere are credentials that no document needs: the node fetches the one, and the
// other is used by machine-controller alone.
var nowhere = map[string]bool{"the bootstrap token": true, "RHEL's offline token": true}

// inModules are those that cloud-init reads out of the document itself.
var inModules = map[string]bool{"RHEL's password": true, "RHEL's activation key": true}

// inScripts are those that a script may hold which root alone reads, with the reason.
var inScripts = map[string]string{
	"a mirror's password": "the URLs of mirrors stand where they are used; they are handed to curl by its standard input",
}

// TestSecrets: what holds a credential is a file that root alone reads, and no
// command has one among its arguments. It holds for the proxy's password as well:
// /etc/environment is written by a script, which reads it from such a file.
func TestSecrets(t *testing.T) {
	var out report
	held := map[string]int{}
	for _, r := range renderings(t) {
		for path, f := range r.node() {
			for what, secret := range secrets {
				if !holds(f.content, secret) {
					continue
				}
				held[what]++
				switch {
				case f.mode&0o077 != 0:
					out.add(path+" holds "+what+", and others than root may read it", r.name)
				case shell.MatchString(f.content) && inScripts[what] == "":
					out.add(path+" is a script that holds "+what, r.name)
				case strings.HasPrefix(path, unitDir):
					out.add(path+" is a unit that holds "+what+": every user may ask systemd for it", r.name)
				}
			}
		}
		for _, s := range r.stages() {
			for what, secret := range secrets {
				if inModules[what] && strings.Contains(string(s.document), secret) {
					held[what]++
				}
				for _, command := range s.commands {
					if holds(command, secret) {
						out.add("a command of the document holds "+what, r.name)
					}
				}
			}
		}
	}
	out.fail(t)
	for what := range secrets {
		if (held[what] == 0) != nowhere[what] {
			t.Errorf("%s is in %d places, in none: want %t", what, held[what], nowhere[what])
		}
	}
}

func holds(text, secret string) bool {
	return strings.Contains(text, secret) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(secret)))
}

// TestTokenOnce: the token with which a node fetches is in one file of each stage at
// most.
func TestTokenOnce(t *testing.T) {
	var out report
	for _, r := range renderings(t) {
		for name, s := range r.stages() {
			var in []string
			for path, f := range s.nodeFiles() {
				if holds(f.content, matrix.NodeToken) {
					in = append(in, path)
				}
			}
			if len(in) > 1 || name == "bootstrap" && len(in) != 1 {
				out.add(name+": the token is in "+strings.Join(in, ", "), r.name)
			}
		}
	}
	out.fail(t)
}
