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

// RuleNotMirrored is the rule of lint/mirrored.
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

// SeverityOf is the severity of a rule's findings, unless one of them says otherwise: an error for a
// rule that does not exist.
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
	{
		Name: RuleUnreadable, Severity: SeverityError,
		Summary: "A ProfileSource of the folder would not read this entry.",
		Help:    "The controller does not read symbolic links, and folders or files above its limits. Move such entries, or list them in .osmignore.",
	},
	{
		Name: RuleYAML, Severity: SeverityError,
		Summary: "The file is not valid YAML.",
		Help:    "The controller rejects the file; the last valid profile stays active. Fix the named line, or the line above it.",
	},
	{
		Name: RuleSchema, Severity: SeverityError,
		Summary: "The document is not a valid OperatingSystemProfile.",
		Help:    "A field, the name or the version is unknown, missing or invalid. The controller rejects the file.",
	},
	{
		Name: RuleEmptyFile, Severity: SeverityWarning,
		Summary: "The file is empty, or contains only comments.",
		Help: "A profile that it contained is no longer offered: existing pools continue, new pools are rejected. " +
			"Restore the profile, or delete the file to show the intent.",
	},
	{
		Name: RulePassedOver, Severity: SeverityNote,
		Summary: "The folder has files with other kinds of manifests, which a ProfileSource ignores.",
		Help:    "Lint does not check them. To read profiles only, pass their folder, or set `profiles` in .osm-gitops.yaml.",
	},
	{
		Name: RuleDuplicate, Severity: SeverityError,
		Summary: "Two files have the same profile and version.",
		Help:    "The controller rejects both. Remove one, or change its name or version.",
	},
	{
		Name: RuleTemplate, Severity: SeverityError,
		Summary: "A template cannot be parsed, or fails for pools that the profile supports.",
		Help:    "Such a pool gets no configuration. The finding names the affected providers, kubelet versions and settings.",
	},
	{
		Name: RuleCredential, Severity: SeverityError,
		Summary: "The output of a template depends on the content of a credential.",
		Help: "Reviewers see placeholders, so such a template could give nodes something different. The controller rejects the profile. " +
			"A template can print a credential, encode it (`b64enc`, `quote`, `indent`, `toYaml`) and test whether it is set (`{{ if .HTTPProxy }}`). " +
			"Make other decisions in the script on the node.",
	},
	{
		Name: RuleFile, Severity: SeverityError,
		Summary: "A file has a path, mode or content that is impossible on a node.",
		Help:    "Use absolute paths, octal modes and inline content. A path cannot be both a file and the folder of another file.",
	},
	{
		Name: RuleUserData, Severity: SeverityError,
		Summary: "The user-data exceeds the size limit of a provider or of a Secret.",
		Help:    "Machines cannot be created. Move files that the first boot does not need to provisioningConfig, or let the node download them.",
	},
	{
		Name: RuleCloudInit, Severity: SeverityError,
		Summary: "cloud-init rejects a value, or never uses it.",
		Help:    "It skips the module, or does not run it in this stage: the node starts without this configuration.",
	},
	{
		Name: RuleUnit, Severity: SeverityError,
		Summary: "systemd rejects a unit, ignores a part of it, or nothing starts it.",
		Help:    "systemd ignores unknown sections and directives, and only writes a line to the journal.",
	},
	{
		Name: RuleUnitUnknown, Severity: SeverityWarning,
		Summary: "A unit depends on a unit that neither the profile nor the operating system has.",
		Help: "With Requires= or BindsTo= it never starts. " +
			"Add the missing unit, install its package in a script, or suppress the finding and name the source of the unit.",
	},
	{
		Name: RuleOverlay, Severity: SeverityError,
		Summary: "A ProfileOverlay does not apply to its base, or its base does not exist.",
		Help: "The controller rejects the file. An item to add must not exist in the base; an item to replace or remove must. " +
			"The finding has the position in both files.",
	},
	{
		Name: RuleBaseMoved, Severity: SeverityNote,
		Summary: "The base of a ProfileOverlay has a newer version.",
		Help:    "The overlay continues to use the version that it names. `osm-gitops rebase-overlay` shows the difference, and updates the overlay.",
	},
	{
		Name: RuleSetting, Severity: SeverityWarning,
		Summary: "A setting in the file of --cluster is probably a mistake.",
		Help:    "Nodes get the value unchanged. A value that no node can use is an error: the controller does not start with it.",
	},
	{
		Name: RuleIncomplete, Severity: SeverityError,
		Summary: "A file was not checked completely, because the check took too long.",
		Help:    "The finding names the checks that did not finish. It cannot be suppressed. Simplify the templates, or raise --file-timeout.",
	},
	{
		Name: RuleBranch, Severity: SeverityNote,
		Summary: "A branch of a template was not executed in any rendering.",
		Help:    "Its content was not checked. The note has the reason; remove a branch that no pool can reach.",
	},
}

var textRules = []Rule{
	{
		Name: RuleShellSyntax, Severity: SeverityError,
		Summary: "A script has a syntax error.",
		Help: "Only the commands before it are executed. " +
			"To reproduce it, run `bash -n FILE` on the files that `osm-gitops render -o dir=PATH` writes.",
	},
	{
		Name: RuleInsecureDownload, Severity: SeverityError,
		Summary: "A download accepts any certificate: `curl -k`, `wget --no-check-certificate`, `sslverify=0` and similar options.",
		Help: "An attacker on the network can replace content that runs as root. Remove the option. " +
			"For a private CA, pass `--cacert FILE`, or set the pool's CA bundle, which nodes have before their first download.",
	},
	{
		Name: RuleHTTPDownload, Severity: SeverityError,
		Summary: "A download over http is not compared with a checksum.",
		Help: "An attacker on the network can replace the content. " +
			"Use https, or compare the file with a SHA-256 from the profile or from the controller's setting `downloadDigests`. " +
			"The rule ignores loopback and link-local addresses and metadata services of clouds.",
	},
	{
		Name: RuleUncheckedDownload, Severity: SeverityWarning,
		Summary: "A script downloads a file and does not compare it with a checksum or signature.",
		Help: "https authenticates the server, not the content. " +
			"Compare it: `echo \"$sha256  $file\" | sha256sum --check --status`. " +
			"The rule checks files that curl and wget write, and downloads piped into tar and similar programs. " +
			"It ignores requests with credentials or their own CA, downloads of checksums, signatures and keys, and scripts that compute the file names and " +
			"compare some file.",
	},
	{
		Name: RuleUnpinned, Severity: SeverityWarning,
		Summary: "A download or package has no version: `latest`, a branch, `apt-get install kubelet`.",
		Help: "Nodes change without a commit. Write the version, and change it in a commit. " +
			"Packages: only those that a node needs to join, kubelet, kubeadm, kubectl, containerd, runc, Docker, CRI-O.",
	},
	{
		Name: RuleRunDownload, Severity: SeverityError,
		Summary: "A script is run while it is downloaded: `curl ... | sh`, `bash <(curl ...)`, `eval \"$(curl ...)\"`.",
		Help: "If the connection fails, half of it has run, unverified. " +
			"Download it to a file, compare its SHA-256, then run it; or put it into the profile.",
	},
	{
		Name: RuleUnsignedPackages, Severity: SeverityError,
		Summary: "A package manager accepts unsigned packages: `--allow-unauthenticated`, `--nogpgcheck`, `gpgcheck=0`, `[trusted=yes]`.",
		Help: "Anyone who can write to the repository or a mirror of it is root on every node. " +
			"Install its key and leave the check enabled (`signed-by=`, `gpgcheck=1` with `gpgkey=`).",
	},
	{
		Name: RuleLiteralCredential, Severity: SeverityError,
		Summary: "The profile contains a private key, a token or a password.",
		Help: "Revoke it: it remains in the history of the repository. " +
			"Nodes get credentials from the controller's settings, from the pool, or from a Secret that they fetch. " +
			"The rule finds private keys, tokens of some services by their format, and constants that a script, a unit or a configuration file assigns to a name " +
			"such as `password`, `AWS_SECRET_ACCESS_KEY` or `api_token`, or passes to `chpasswd`. " +
			"It ignores paths, variables, names of Secrets and tokens of fewer than 12 characters. Lint never prints the credential.",
	},
	{
		Name: RuleReadableCredential, Severity: SeverityError,
		Summary: "A file or unit contains a credential and is readable by every user of the node.",
		Help: "It is the bootstrap token, or a credential of a registry, mirror or proxy. " +
			"Set `permissions: 600` (for a script: 700). " +
			"Every user can read units through systemd: refer to a file in the unit, `EnvironmentFile=` or `LoadCredential=`.",
	},
	{
		Name: RuleCredentialArgument, Severity: SeverityError,
		Summary: "A credential is an argument of a program: `curl -H \"Authorization: ...\"`, `curl -u user:password`, `--password ...`.",
		Help: "Every user of the node can read arguments in /proc, and monitoring agents forward them. " +
			"Pass it in a file of mode 600 (`curl --header @FILE`, `--config FILE`) or on standard input. Shell builtins such as echo and printf are not processes.",
	},
	{
		Name: RuleTrace, Severity: SeverityError,
		Summary: "A script with a credential uses `set -x`, `bash -x` or `curl --verbose`.",
		Help: "More users can read the journal than the file with the credential. " +
			"Remove the option, or write `set +x` before the script reads the credential and `set -x` after its last use.",
	},
	{
		Name: RuleGoesOn, Severity: SeverityWarning,
		Summary: "A script continues after a failed command: no `set -e`, or pipes without `pipefail`.",
		Help: "An incomplete node joins and fails later. Begin with `set -euo pipefail` (sh: `set -eu`). " +
			"If the script must continue, set `-u` or `pipefail` without `-e`: the rule ignores such scripts, those with a single command, and `echo ... |`.",
	},
	{
		Name: RuleEval, Severity: SeverityWarning,
		Summary: "A script calls `eval` with a value.",
		Help: "A quote in the URL of a proxy or in the metadata of a cloud becomes a command that root runs. " +
			"Use an array for arguments, `\"${!name}\"` or `declare -n` for a variable by name, `source FILE` for a file.",
	},
	{
		Name: RuleWorldWritable, Severity: SeverityError,
		Summary: "A file or folder is writable by every user of the node: mode 666 or 777, `umask 000`.",
		Help:    "Any account can change what root runs or reads. Use 755 or 644. The rule ignores a folder with the sticky bit, such as /tmp (1777).",
	},
	{
		Name: RulePasswordlessSudo, Severity: SeverityWarning,
		Summary: "Sudo does not require a password (`NOPASSWD`).",
		Help: "Anyone with access to the account, over SSH or from a process, is root. Most cloud images already have such an account. " +
			"Remove the entry, or suppress the finding.",
	},
	{
		Name: RuleAuthorizedKeys, Severity: SeverityWarning,
		Summary: "A profile writes `authorized_keys`.",
		Help: "Revoking such a key requires a new version and new machines. " +
			"Configure SSH keys in the pool: `spec.template.spec.providerSpec.value.sshPublicKeys` of the MachineDeployment.",
	},
}

var shellcheckRules = []Rule{
	{
		Name: RuleShellcheck, Severity: SeverityWarning,
		Summary: "A message of shellcheck about a script, with its number.",
		Help: "Each message has a page, such as https://www.shellcheck.net/wiki/SC2086. " +
			"Errors of shellcheck are errors, its warnings and infos are warnings, its style messages are notes. " +
			"`lint.shellcheckSeverity` in .osm-gitops.yaml sets the lowest level that is reported. Comments such as `# shellcheck disable=SC2086` are respected. " +
			"If shellcheck is not installed, lint only parses scripts and reports this; with `--shellcheck=require` that is an error.",
	},
}

var versionRules = []Rule{
	{
		Name: RuleNotChanged, Severity: SeverityError,
		Summary: "The content of a profile changed, and its version did not.",
		Help: "The controller rejects the change and continues with the earlier content. " +
			"Give the profile a new version. Comments and the order of keys are not content.",
	},
	{
		Name: RuleReused, Severity: SeverityError,
		Summary: "An earlier commit of the base used this version for different content.",
		Help: "A version identifies the content that it had first, even after deletion or a merge. The controller rejects the change. " +
			"Choose a version that no commit on the first-parent history of the base has used.",
	},
	{
		Name: RuleBackwards, Severity: SeverityError,
		Summary: "The version of a profile is lower than in the base, and its content is not that of an earlier release.",
		Help: "Pools that request a range such as ~1.8 never get it. Choose a version above that of the base. " +
			"To return to an earlier release, restore its content together with its version: a rollback, and not an error.",
	},
	{
		Name: RuleRollback, Severity: SeverityNote,
		Summary: "A profile returns to an earlier release, with its content and version.",
		Help:    "Before you merge, confirm that the downgrade is intended.",
	},
	{
		Name: RuleRemoved, Severity: SeverityWarning,
		Summary: "A profile of the base no longer exists: its file was deleted or emptied.",
		Help: "Pools whose annotation k8c.io/operating-system-profile names it retain their configuration; new pools with it are rejected. " +
			"Assign a different profile first. If `pools` in .osm-gitops.yaml names a folder, the finding lists the pools, and is a note if none uses the profile.",
	},
	{
		Name: RuleRenamed, Severity: SeverityWarning,
		Summary: "A profile has a different name than in the base.",
		Help: "Pools stay with the old profile until their annotation k8c.io/operating-system-profile names the new one. " +
			"Leave both names in the repository until all pools have changed.",
	},
	{
		Name: RuleCollision, Severity: SeverityError,
		Summary: "Two profiles or versions would have the same object name in the cluster.",
		Help:    "It consists of the profile's name and its version, such as osp-ubuntu-v1.9.0. Rename one of the profiles.",
	},
	{
		Name: RuleNoHistory, Severity: SeverityNote,
		Summary: "The history of the base is incomplete, so lint did not compare the versions of earlier commits.",
		Help:    "Fetch all commits in CI: `fetch-depth: 0` for actions/checkout, `GIT_DEPTH: 0` for GitLab.",
	},
}

var mirrorRules = []Rule{
	{
		Name: RuleNotMirrored, Severity: SeverityError,
		Summary: "A profile downloads something that the file of `--mirrors` does not list.",
		Help: "Without Internet access, a node stops at this download. " +
			"Mirror the item and add it to the file, which `osm-gitops bundle -o mirrors` writes, or remove it from the profile. " +
			"Lint cannot compare values that only a node knows: make them constant.",
	},
}

var configRules = []Rule{
	{
		Name: RuleExpired, Severity: SeverityWarning,
		Summary: "A suppression in .osm-gitops.yaml has expired.",
		Help:    "Its findings are reported again. Fix them, or set a later `until` with a `reason`.",
	},
	{
		Name: RuleUnused, Severity: SeverityNote,
		Summary: "A suppression in .osm-gitops.yaml matches no finding.",
		Help:    "Remove it: it would hide the next finding of that rule. It is a note, because lint can run on a part of the repository.",
	},
}
