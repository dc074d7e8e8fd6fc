package lint

import (
	"slices"
	"strings"
)

// The rules of the engine: whether a profile renders and a node takes it.
const (
	RuleUnreadable  = "unreadable"
	RuleYAML        = "yaml"
	RuleSchema      = "schema"
	RuleDuplicate   = "duplicate"
	RuleTemplate    = "template"
	RuleCredential  = "credential-content"
	RuleFile        = "file"
	RuleUserData    = "user-data-limit"
	RuleCloudInit   = "cloud-init"
	RuleUnit        = "unit"
	RuleUnitUnknown = "unit-unknown"
	RuleBranch      = "branch-not-reached"
	RuleOverlay     = "overlay"
	RuleBaseMoved   = "base-moved"
	RuleIncomplete  = "incomplete"
	RuleEmptyFile   = "empty-file"
	RulePassedOver  = "not-a-profile"
	RuleSetting     = "setting"
)

// The rules of lint/shellrules: what a reviewer would object to.
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

// RuleShellcheck is the rule of lint/shellcheck; messages begin with shellcheck's number.
const RuleShellcheck = "shellcheck"

// The rules of lint/versions.
const (
	RuleNotChanged = "version-not-changed"
	RuleReused     = "version-reused"
	RuleBackwards  = "version-backwards"
	RuleRollback   = "rollback"
	RuleRemoved    = "profile-removed"
	RuleRenamed    = "profile-renamed"
	RuleCollision  = "name-collision"
	RuleNoHistory  = "no-history"
)

// RuleNotMirrored is the rule of lint/downloads.
const RuleNotMirrored = "not-mirrored"

// The rules about the file .osm-gitops.yaml.
const (
	RuleExpired = "suppression-expired"
	RuleUnused  = "suppression-unused"
)

// Chapter is the rules of one part.
type Chapter struct {
	Title string
	Rules []Rule
}

// Chapters describe all rules part by part, in the order of the page about them.
func Chapters() []Chapter {
	return []Chapter{
		{"Whether a profile renders and a node takes it", engineRules},
		{"What a reviewer would object to", textRules},
		{"Scripts", shellcheckRules},
		{"Versions, with --base", versionRules},
		{"Downloads, with --mirrors", mirrorRules},
		{"The file .osm-gitops.yaml", configRules},
	}
}

// Rules are all rules in the order of their names.
func Rules() []Rule {
	var out []Rule
	for _, c := range Chapters() {
		out = append(out, c.Rules...)
	}
	slices.SortFunc(out, func(a, b Rule) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// SeverityOf is the severity of a rule's findings, unless one of them says otherwise.
func SeverityOf(rule string) Severity {
	for _, c := range Chapters() {
		for _, r := range c.Rules {
			if r.Name == rule {
				return r.Severity
			}
		}
	}
	return SeverityError
}

var engineRules = []Rule{
	{RuleUnreadable, SeverityError, "A ProfileSource of the folder would not read this entry.",
		"The controller never reads symbolic links, folders that are nested too deeply, or files that are too large. Move entries that are not profiles out of the folder, or list them in .osmignore."},
	{RuleYAML, SeverityError, "The file is not valid YAML.",
		"The controller rejects the file, and the last valid profile stays active. Fix the line that the finding names, or the line above it."},
	{RuleSchema, SeverityError, "The document is not a valid OperatingSystemProfile.",
		"A field is unknown, missing or of the wrong type, or the name or version is invalid. The controller rejects the file."},
	{RuleEmptyFile, SeverityWarning, "The file is empty, or contains only comments.",
		"If the file contained a profile, the profile is no longer offered: pools that use it continue to do so, and new pools are rejected. Restore the profile, or delete the file to show that the removal is intended."},
	{RulePassedOver, SeverityNote, "The folder has files with other kinds of manifests, which a ProfileSource ignores.",
		"ProfileSources, MachineDeployments and cluster files can be in the same folder as profiles; lint does not check them. To read profiles only, pass their folder, or set `profiles` in .osm-gitops.yaml."},
	{RuleDuplicate, SeverityError, "Two files have the same profile and version.",
		"The order of the files would decide which one is used, so the controller rejects both. Remove one, or change its name or version."},
	{RuleTemplate, SeverityError, "A template cannot be parsed, or fails for pools that the profile supports.",
		"Such a pool gets no configuration. The finding names the affected providers, kubelet versions and settings."},
	{RuleCredential, SeverityError, "The output of a template depends on the content of a credential.",
		"Reviewers see placeholders instead of credentials, so such a template could show them something harmless and give nodes something different. The controller rejects the profile. " +
			"A template can print a credential, encode it (`b64enc`, `quote`, `indent`, `toYaml`) and test whether it is set (`{{ if .HTTPProxy }}`). For any other decision, use the script on the node."},
	{RuleFile, SeverityError, "A file has a path, mode or content that is impossible on a node.",
		"Use absolute paths, octal modes and inline content. A path cannot be both a file and the folder of another file."},
	{RuleUserData, SeverityError, "The user-data exceeds the size limit of a provider or of a Secret.",
		"Machines cannot be created. Move files that the first boot does not need to provisioningConfig, or let the node download them."},
	{RuleCloudInit, SeverityError, "cloud-init rejects a value, or never uses it.",
		"cloud-init skips a module with such a value, or does not run it in this stage: the node starts without this configuration."},
	{RuleUnit, SeverityError, "systemd rejects a unit, ignores a part of it, or nothing starts it.",
		"systemd ignores unknown sections and directives, and only writes a line to the journal."},
	{RuleUnitUnknown, SeverityWarning, "A unit depends on a unit that neither the profile nor the operating system has.",
		"With Requires= or BindsTo= the unit never starts. Add the missing unit, install its package in a script, or suppress the finding with a reason that states where the unit is from."},
	{RuleOverlay, SeverityError, "A ProfileOverlay does not apply to its base, or its base does not exist.",
		"The controller rejects the file. An item to add must not exist in the base; an item to replace or remove must exist. The finding names the position in both files."},
	{RuleBaseMoved, SeverityNote, "The base of a ProfileOverlay has a newer version.",
		"The overlay continues to use the version that it names. `osm-gitops rebase-overlay` shows what the newer version would change, and updates the overlay."},
	{RuleSetting, SeverityWarning, "A setting in the file of --cluster is probably a mistake.",
		"Nodes get the value unchanged, so existing nodes continue to work. A value that no node can use is an error: the controller does not start with it."},
	{RuleIncomplete, SeverityError, "A file was not checked completely, because the check took too long.",
		"The finding names the checks that did not finish. It cannot be suppressed. Simplify the templates, or allow more time with --file-timeout."},
	{RuleBranch, SeverityNote, "A branch of a template was not executed in any rendering.",
		"Lint did not check the content of the branch. The note gives the reason; remove a branch that no pool can reach."},
}

var textRules = []Rule{
	{
		Name: RuleShellSyntax, Severity: SeverityError,
		Summary: "A script has a syntax error.",
		Help: "A shell parses a script while it runs it: commands before the error are executed, commands after it are not, and the node remains partly configured. " +
			"Fix the error. To reproduce it, run `bash -n FILE` on the files that `osm-gitops render -o dir=PATH` writes.",
	},
	{
		Name: RuleInsecureDownload, Severity: SeverityError,
		Summary: "A download accepts any certificate: `curl -k`, `wget --no-check-certificate`, `sslverify=0` and similar options.",
		Help: "An attacker on the network can replace the content, and it runs as root. " +
			"Remove the option. For a private CA, pass `--cacert FILE`, or set the pool's CA bundle, which nodes have before their first download.",
	},
	{
		Name: RuleHTTPDownload, Severity: SeverityError,
		Summary: "A download over http is not compared with a checksum.",
		Help: "An attacker on the network can replace the content without detection. Use https. If a mirror only has http, compare the file " +
			"with a SHA-256 from the profile or from the controller's setting `downloadDigests`. The rule ignores loopback addresses, link-local addresses and the metadata services of clouds.",
	},
	{
		Name: RuleUncheckedDownload, Severity: SeverityWarning,
		Summary: "A script downloads a file and does not compare it with a checksum or signature.",
		Help: "https authenticates the server, not the content: the script would use a changed release, the error page of a mirror or a truncated file as the program. " +
			"Compare it: `echo \"$sha256  $file\" | sha256sum --check --status`. The rule checks files that curl and wget write, and downloads that are piped into tar and similar programs. " +
			"It ignores requests with credentials or their own CA (calls to a service), downloads of checksums, signatures and keys, and scripts that compute the file names and compare some file.",
	},
	{
		Name: RuleUnpinned, Severity: SeverityWarning,
		Summary: "A download or package has no version: `latest`, a branch, `apt-get install kubelet`.",
		Help: "The same commit of the profile creates a different node after the next release, and the first one can be a node that the autoscaler adds at night. " +
			"Write the version and change it in a commit. The rule checks only the packages that a node needs to join its cluster: kubelet, kubeadm, kubectl, containerd, runc, Docker, CRI-O. " +
			"It ignores other packages of the distribution.",
	},
	{
		Name: RuleRunDownload, Severity: SeverityError,
		Summary: "A script is run while it is downloaded: `curl ... | sh`, `bash <(curl ...)`, `eval \"$(curl ...)\"`.",
		Help: "If the connection fails, half of the script has run, and nothing has verified its content. Download it to a file, compare its SHA-256, then run the file. " +
			"If possible, put the script into the profile.",
	},
	{
		Name: RuleUnsignedPackages, Severity: SeverityError,
		Summary: "A package manager accepts unsigned packages: `--allow-unauthenticated`, `--nogpgcheck`, `gpgcheck=0`, `[trusted=yes]`.",
		Help:    "Anyone with write access to the repository or a mirror of it is root on every node. Install the repository's key and leave the check enabled (`signed-by=`, `gpgcheck=1` with `gpgkey=`).",
	},
	{
		Name: RuleLiteralCredential, Severity: SeverityError,
		Summary: "The profile contains a private key, a token or a password.",
		Help: "Anyone with read access to the repository can read it, now and in the history, and so can anyone with read access to OperatingSystemProfiles in the cluster. Revoke the credential: it remains in the history after you remove the line. " +
			"Nodes get credentials from the controller's settings, from the pool, or from a Secret that they fetch. The rule finds private keys, tokens of some services by their format, and constants that a script, a unit or a " +
			"configuration file assigns to a name such as `password`, `AWS_SECRET_ACCESS_KEY` or `api_token`, or passes to `chpasswd`. It ignores paths, variables, names of Secrets and tokens of fewer than 12 characters. " +
			"Lint never prints the credential.",
	},
	{
		Name: RuleReadableCredential, Severity: SeverityError,
		Summary: "A file or unit contains a credential and is readable by every user of the node.",
		Help: "A process that has escaped to any account of the node can read the credential: the bootstrap token, or a credential of a registry, mirror or proxy. " +
			"Set `permissions: 600` (for a script: 700). Every user can read the text of a unit through systemd, so refer to a file in the unit: `EnvironmentFile=`, `LoadCredential=`. " +
			"Lint renders placeholders instead of credentials and searches for them.",
	},
	{
		Name: RuleCredentialArgument, Severity: SeverityError,
		Summary: "A credential is an argument of a program: `curl -H \"Authorization: ...\"`, `curl -u user:password`, `--password ...`.",
		Help: "Every user of the node can read the arguments of every process in /proc, and monitoring agents forward them. " +
			"Pass the credential in a file of mode 600 (`curl --header @FILE`, `--config FILE`) or on standard input. Shell builtins such as echo and printf are not processes.",
	},
	{
		Name: RuleTrace, Severity: SeverityError,
		Summary: "A script with a credential uses `set -x`, `bash -x` or `curl --verbose`.",
		Help: "The output is written to the journal, which is stored, forwarded and readable by more users than the file with the credential. " +
			"Remove the option, or write `set +x` before the script reads the credential and `set -x` after its last use. The rule ignores `set -x` in scripts without credentials.",
	},
	{
		Name: RuleGoesOn, Severity: SeverityWarning,
		Summary: "A script continues after a failed command: no `set -e`, or pipes without `pipefail`.",
		Help: "A node with an incomplete setup joins the cluster and fails later, and the cause is hard to find. Begin the script with `set -euo pipefail` (sh: `set -eu`). " +
			"If the script must continue, set `-u` or `pipefail` without `-e`. The rule ignores such scripts, scripts with a single command, and `echo ... |`, whose failure has no effect.",
	},
	{
		Name: RuleEval, Severity: SeverityWarning,
		Summary: "A script calls `eval` with a value.",
		Help:    "The value is run as a program: a quote in the URL of a proxy or in the metadata of a cloud becomes a command that root runs. Use an array for arguments, `\"${!name}\"` or `declare -n` for a variable by name, `source FILE` for a file.",
	},
	{
		Name: RuleWorldWritable, Severity: SeverityError,
		Summary: "A file or folder is writable by every user of the node: mode 666 or 777, `umask 000`.",
		Help:    "Any account can change what root runs or reads. Remove the write permission for others (755, 644). The rule ignores a folder with the sticky bit, such as /tmp (1777).",
	},
	{
		Name: RulePasswordlessSudo, Severity: SeverityWarning,
		Summary: "Sudo does not require a password (`NOPASSWD`).",
		Help:    "Anyone with access to the account, over SSH or from a process, is root. The images of most clouds already have such an account, created by cloud-init. Remove the entry, or justify it in a suppression.",
	},
	{
		Name: RuleAuthorizedKeys, Severity: SeverityWarning,
		Summary: "A profile writes `authorized_keys`.",
		Help: "Such a key gives access to every node of every pool with this profile, and revoking it requires a new version and new machines. " +
			"Configure SSH keys in the pool: `spec.template.spec.providerSpec.value.sshPublicKeys` of the MachineDeployment, which rendering assigns to the node's user.",
	},
}

var shellcheckRules = []Rule{{
	Name: RuleShellcheck, Severity: SeverityWarning, Summary: "A message of shellcheck about a script, with its number.",
	Help: "Each message has a page with examples, such as https://www.shellcheck.net/wiki/SC2086. Errors of shellcheck are errors, its warnings and infos are warnings, its style messages are notes. " +
		"`lint.shellcheckSeverity` in .osm-gitops.yaml sets the lowest level that is reported. Comments such as `# shellcheck disable=SC2086` in the script are respected. " +
		"If the program is not installed, lint only parses scripts and reports this; with `--shellcheck=require` that is an error.",
}}

var versionRules = []Rule{
	{Name: RuleNotChanged, Severity: SeverityError, Summary: "The content of a profile changed, and its version did not.",
		Help: "A version always identifies the same content: nodes, records and audits refer to it. The controller rejects the change and continues with the earlier content. Give the profile a new version. Comments and the order of keys are not part of the content."},
	{Name: RuleReused, Severity: SeverityError, Summary: "An earlier commit of the base used this version for different content.",
		Help: "A version identifies the content that it had first, even if that file was deleted or another branch was merged in between. The controller rejects the change. Choose a version that no commit on the first-parent history of the base has used."},
	{Name: RuleBackwards, Severity: SeverityError, Summary: "The version of a profile is lower than in the base, and its content is not that of an earlier release.",
		Help: "Pools that request a range such as ~1.8 never get it, and the order of versions in the history is misleading. Choose a version above that of the base. To return to an earlier release, restore its content together with its version; that is a rollback, and not an error."},
	{Name: RuleRollback, Severity: SeverityNote, Summary: "A profile returns to an earlier release, with its content and version.",
		Help: "Pools get the earlier release unchanged. Before you merge, confirm that the downgrade is intended."},
	{Name: RuleRemoved, Severity: SeverityWarning, Summary: "A profile of the base no longer exists: its file was deleted or emptied.",
		Help: "Pools whose annotation k8c.io/operating-system-profile names it retain their configuration; new pools with it are rejected. Assign a different profile to them first. If `pools` in .osm-gitops.yaml names a folder, the finding lists the pools, and it is a note if none of them uses the profile."},
	{Name: RuleRenamed, Severity: SeverityWarning, Summary: "A profile has a different name than in the base.",
		Help: "The cluster sees one removed and one new profile: pools stay with the old one, and get no change of the new one until their annotation k8c.io/operating-system-profile names it. Leave both names in the repository until all pools have changed."},
	{Name: RuleCollision, Severity: SeverityError, Summary: "Two profiles or versions would have the same object name in the cluster.",
		Help: "The name of an object consists of the profile's name and its version, such as osp-ubuntu-v1.9.0. Rename one of the profiles."},
	{Name: RuleNoHistory, Severity: SeverityNote, Summary: "The history of the base is incomplete, so lint did not compare the versions of earlier commits.",
		Help: "A shallow clone contains only the last commits. Fetch all commits in CI: `fetch-depth: 0` for actions/checkout, `GIT_DEPTH: 0` for GitLab."},
}

var mirrorRules = []Rule{{
	Name: RuleNotMirrored, Severity: SeverityError,
	Summary: "A profile downloads something that the file of `--mirrors` does not list.",
	Help: "Without Internet access, a node stops at its first download that is not mirrored. Mirror the item and add it to the file, " +
		"which `osm-gitops bundle -o mirrors` writes, or remove it from the profile. Lint cannot compare values that only a node knows: make them constant.",
}}

var configRules = []Rule{
	{Name: RuleExpired, Severity: SeverityWarning, Summary: "A suppression in .osm-gitops.yaml has expired.",
		Help: "The findings that it suppressed are reported again. Fix them, or set a later `until` and give the reason in `reason`."},
	{Name: RuleUnused, Severity: SeverityNote, Summary: "A suppression in .osm-gitops.yaml matches no finding.",
		Help: "Remove it: it would hide the next finding of that rule without a review. It is a note, because lint can run on a part of the repository."},
}
