package shellrules

import "github.com/osm-gitops/osm-gitops/pkg/lint"

// The rules about texts on a node.
const (
	RuleShellSyntax        = "shell-syntax"
	RuleInsecureDownload   = "insecure-download"
	RuleHTTPDownload       = "http-download"
	RuleUncheckedDownload  = "unchecked-download"
	RuleUnpinned           = "unpinned-version"
	RuleRunDownload        = "run-download"
	RuleUnsignedPackages   = "unsigned-packages"
	RuleLiteralCredential  = "credential-in-profile"
	RuleReadableCredential = "credential-readable"
	RuleCredentialArgument = "credential-argument"
	RuleTrace              = "trace-credential"
	RuleGoesOn             = "goes-on-after-failure"
	RuleEval               = "eval"
	RuleWorldWritable      = "world-writable"
	RulePasswordlessSudo   = "sudo-without-password"
	RuleAuthorizedKeys     = "authorized-keys"
)

// rules describes them, in the order of the constants.
var rules = []lint.Rule{
	{
		Name: RuleShellSyntax, Severity: lint.SeverityError,
		Summary: "A script that no shell can read.",
		Help: "A shell reads a script as it runs it: everything before the mistake is done, everything after it is not, and the node stays half made. " +
			"Mend it; `bash -n FILE` on what `osm-gitops render -o dir=PATH` writes shows the same.",
	},
	{
		Name: RuleInsecureDownload, Severity: lint.SeverityError,
		Summary: "A download that takes any certificate: `curl -k`, `wget --no-check-certificate`, `sslverify=0` and their like.",
		Help: "Whoever is between the node and the server decides what arrives, and what arrives runs as root. " +
			"Leave the option out. For a CA of your own give the request `--cacert FILE`, or set the pool's CA bundle, which nodes have before they download anything.",
	},
	{
		Name: RuleHTTPDownload, Severity: lint.SeverityError,
		Summary: "A download over http that is not compared with a checksum.",
		Help: "Whoever is between the node and the server decides what arrives, and nothing notices. Use https; where a mirror has http only, compare what arrived " +
			"with a SHA-256 that the profile or the controller's setting `downloadDigests` has. Loopback, link-local addresses and the clouds' metadata services are not meant.",
	},
	{
		Name: RuleUncheckedDownload, Severity: lint.SeverityWarning,
		Summary: "A file is downloaded, and the script compares it with no checksum or signature.",
		Help: "https says which server answered, not that what it has is what was tested: a changed release, a mirror's error page or half a file are taken for the program. " +
			"Compare: `echo \"$sha256  $file\" | sha256sum --check --status`. Looked at are files that curl and wget write, and what goes straight into tar and its like. " +
			"Not meant are requests with credentials or a CA of their own (questions to a service), checksums, signatures and keys, and scripts in which the names are computed and something is compared.",
	},
	{
		Name: RuleUnpinned, Severity: lint.SeverityWarning,
		Summary: "A download or a package without a version: `latest`, a branch, `apt-get install kubelet`.",
		Help: "The same commit of the profile makes another node tomorrow, and the first node that differs is the one that the autoscaler makes at night. " +
			"Write the version and change it in a commit. Of packages only those are meant on which the node's place in the cluster depends: kubelet, kubeadm, kubectl, containerd, runc, Docker, CRI-O. " +
			"The rest of the distribution comes as its repository has it.",
	},
	{
		Name: RuleRunDownload, Severity: lint.SeverityError,
		Summary: "What arrives is run while it arrives: `curl ... | sh`, `bash <(curl ...)`, `eval \"$(curl ...)\"`.",
		Help: "A connection that breaks off leaves half a script that has run, and nobody has compared it with anything. Download it to a file, compare its SHA-256, then run the file; " +
			"better still, put the script into the profile.",
	},
	{
		Name: RuleUnsignedPackages, Severity: lint.SeverityError,
		Summary: "A package manager that takes packages which nobody signed: `--allow-unauthenticated`, `--nogpgcheck`, `gpgcheck=0`, `[trusted=yes]`.",
		Help:    "Whoever can write to the repository or a mirror of it is root on every node. Install the repository's key and leave the check on (`signed-by=`, `gpgcheck=1` with `gpgkey=`).",
	},
	{
		Name: RuleLiteralCredential, Severity: lint.SeverityError,
		Summary: "A private key, a token or a password that stands in the profile.",
		Help: "Everyone who may read the repository has it, now and in its history, and so has everyone who may read OperatingSystemProfiles in the cluster. Revoke it: removing the line does not take it back. " +
			"Nodes get credentials from the controller's settings, the pool, or a Secret that they fetch. Found are private keys, the tokens of some services by their form, and constants that a script, a unit or a " +
			"configuration gives to a name such as `password`, `AWS_SECRET_ACCESS_KEY` or `api_token`, or to `chpasswd`. Paths, variables and names of Secrets are not meant, nor are tokens of fewer than 12 characters. " +
			"What is found is never printed.",
	},
	{
		Name: RuleReadableCredential, Severity: lint.SeverityError,
		Summary: "A file or unit that holds a credential and that every user of the node may read.",
		Help: "A process that has escaped to any account of the node has the credential: of the bootstrap token, of registries, of mirrors and proxies. " +
			"Write `permissions: 600` (a script: 700). A unit's text can be asked of systemd by everybody, so a unit refers to a file: `EnvironmentFile=`, `LoadCredential=`. " +
			"Lint renders with placeholders in place of credentials and finds those.",
	},
	{
		Name: RuleCredentialArgument, Severity: lint.SeverityError,
		Summary: "A credential among the arguments of a program: `curl -H \"Authorization: ...\"`, `curl -u user:password`, `--password ...`.",
		Help: "Every user of the node may read the arguments of every process in /proc, and monitoring sends them on. " +
			"Hand it over in a file of mode 600 (`curl --header @FILE`, `--config FILE`) or by standard input. Builtins of the shell such as echo and printf are no processes.",
	},
	{
		Name: RuleTrace, Severity: lint.SeverityError,
		Summary: "`set -x`, `bash -x` or `curl --verbose` beside a credential.",
		Help: "What is printed ends in the journal, which is kept, sent on and read by more people than the file that the credential came from. " +
			"Leave it out, or write `set +x` before the credential is read and `set -x` after its last use. A `set -x` in a script without credentials is no finding.",
	},
	{
		Name: RuleGoesOn, Severity: lint.SeverityWarning,
		Summary: "A script that goes on after a command failed: no `set -e`, or pipes without `pipefail`.",
		Help: "A node whose setup failed half-way joins the cluster and fails later, where nobody looks for the cause. Begin with `set -euo pipefail` (sh: `set -eu`). " +
			"A script that is to go on says so by setting `-u` or `pipefail` without `-e`; that is no finding, nor is a script of one command, nor `echo ... |`, whose failure means nothing.",
	},
	{
		Name: RuleEval, Severity: lint.SeverityWarning,
		Summary: "`eval` of a value.",
		Help:    "The value is run as a program: a quote in a proxy's URL or in a cloud's metadata is a command of root's. Use an array for arguments, `\"${!name}\"` or `declare -n` for a variable by name, `source FILE` for a file.",
	},
	{
		Name: RuleWorldWritable, Severity: lint.SeverityError,
		Summary: "A file or folder that every user of the node may change: mode 666 or 777, `umask 000`.",
		Help:    "What root runs or reads is then whatever any account has put there. Give others no right to write (755, 644); a folder like /tmp has the sticky bit (1777), and is no finding.",
	},
	{
		Name: RulePasswordlessSudo, Severity: lint.SeverityWarning,
		Summary: "Sudo without a password (`NOPASSWD`).",
		Help:    "Whoever gets into the account, over SSH or out of a process, is root. The images of most clouds have such an account already, made by cloud-init. Leave it out, or justify it in a suppression.",
	},
	{
		Name: RuleAuthorizedKeys, Severity: lint.SeverityWarning,
		Summary: "A profile that writes `authorized_keys`.",
		Help: "Such a key opens every node of every pool with this profile, and withdrawing it takes a new version and new machines. " +
			"SSH keys belong to the pool: `spec.template.spec.providerSpec.value.sshPublicKeys` of the MachineDeployment, which rendering gives to the node's user.",
	},
}

// Rules describes the rules about texts on a node.
func Rules() []lint.Rule { return append([]lint.Rule{}, rules...) }

func severityOf(rule string) lint.Severity {
	for _, r := range rules {
		if r.Name == rule {
			return r.Severity
		}
	}
	return lint.SeverityError
}
