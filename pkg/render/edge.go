package render

import (
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// HasEdgeScript reports whether machines of the pool get their first document from a script
// that an administrator runs on them, because no provider delivers it.
func (p Pool) HasEdgeScript() bool { return p.CloudProvider == osm.CloudProviderEdge }

// EdgeScript returns that script. It runs in any POSIX shell and contains the
// node's token and the CA, so it is a credential. It reads the pool's bootstrap Secret from
// Cluster.Server with Cluster.APIServerToken, and trusts only Settings.KubernetesCACert unless
// that is empty.
func (in Input) EdgeScript() string {
	secret := in.Pool.Name + "-" + in.Pool.Namespace + "-bootstrap-config"
	ca, verify := "", ""
	if text := in.Settings.KubernetesCACert; text != "" {
		ca, verify = hereDocument("ca.crt", text), ` --cacert "$dir/ca.crt"`
	}
	return strings.NewReplacer(
		"@POOL@", in.Pool.key(),
		"@URL@", shellQuote(strings.TrimSuffix(in.Cluster.Server, "/")+"/api/v1/namespaces/cloud-init-settings/secrets/"+secret),
		"@TARGET@", shellQuote("/etc/cloud/cloud.cfg.d/"+secret+".cfg"),
		"@HEADER@", hereDocument("header", "Authorization: Bearer "+in.Cluster.APIServerToken),
		"@CA@", ca,
		"@VERIFY@", verify,
	).Replace(edgeScript)
}

// edgeScript prints what it does and never a value: the token is in a file that only root can
// read, not in an argument.
//
// The script extracts the values from the JSON of a Secret without a parser: they are base64,
// so data is the only mapping that ends at the next brace. cloud-init from 24 on takes --file
// after init, older versions before it. cloud-init runs a module once for each instance. If a
// module has already run, the first attempt can write nothing, and the script then makes
// cloud-init forget the instance. Exit status 2 of cloud-init means that it recovered:
// https://docs.cloud-init.io/en/latest/explanation/return_codes.html
const edgeScript = `# Makes this machine a node of the pool @POOL@: run it as root. It tries until
# it works, and may be run again. It holds a credential: keep it to yourself.
set -eu
umask 077

url=@URL@
target=@TARGET@

say() { echo "edge: $*" >&2; }

if [ "$(id -u)" -ne 0 ]; then
	say "run this as root"
	exit 1
fi
if ! command -v cloud-init >/dev/null; then
	say "this machine has no cloud-init: install it first"
	exit 1
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
@HEADER@@CA@
# again COMMAND: run it until it succeeds, at most half a minute apart.
again() {
	pause=1
	until "$@"; do
		say "$1 failed, next try in ${pause}s"
		sleep "$pause"
		pause=$((pause * 2))
		if [ "$pause" -gt 30 ]; then pause=30; fi
	done
}

tools() {
	if command -v curl >/dev/null; then return 0; fi
	if command -v apt-get >/dev/null; then
		apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y curl
	elif command -v dnf >/dev/null; then
		dnf install -y curl
	else
		say "this machine has no curl: install it"
		return 1
	fi
}

fetch() {
	curl --fail --silent --show-error --proto '=https' --connect-timeout 10 --max-time 60@VERIFY@ \
		--header "@$dir/header" --header 'Accept: application/json' --output "$dir/secret" "$url" || return 1
	tr -d ' \t\r\n' <"$dir/secret" |
		sed -n 's/.*"data":{\([^}]*\)}.*/\1/p' |
		tr ',' '\n' |
		sed -n 's/^"cloud-config":"\([A-Za-z0-9+\/=]*\)"$/\1/p' |
		base64 -d >"$dir/document" || return 1
	first=
	IFS= read -r first <"$dir/document" || :
	case $first in
	'#cloud-config'*) ;;
	*)
		say "the Secret holds no cloud-config"
		return 1
		;;
	esac
	mkdir -p "${target%/*}" && cp "$dir/document" "$target.new" && mv -f "$target.new" "$target"
}

start() {
	version=$(cloud-init --version 2>&1) || return 1
	version=${version##* }
	status=0
	case ${version%%.*} in
	? | 1? | 2[0-3]) cloud-init --file "$target" init || status=$? ;;
	*) cloud-init init --file "$target" || status=$? ;;
	esac
	if [ "$status" -ne 0 ] && [ "$status" -ne 2 ]; then return 1; fi
	systemctl daemon-reload || return 1
	if ! systemctl enable bootstrap.service; then
		cloud-init clean || :
		return 1
	fi
	systemctl restart --no-block bootstrap.service
}

main() {
	again tools
	again fetch
	again start
	say "bootstrap.service is at work: journalctl -fu bootstrap.service shows how far it is"
}

# This script may be the input of its shell: what main runs must not read it.
main </dev/null
`

// hereDocument returns a command that writes a text to a file in $dir. The shell does not
// expand anything in the text.
func hereDocument(name, text string) string {
	text = strings.TrimSuffix(text, "\n")
	end := "END"
	for strings.Contains("\n"+text+"\n", "\n"+end+"\n") {
		end += "D"
	}
	return `cat >"$dir/` + name + `" <<'` + end + "'\n" + text + "\n" + end + "\n"
}

// shellQuote quotes a text so that the shell reads it as one word.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
