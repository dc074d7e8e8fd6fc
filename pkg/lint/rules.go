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
		"Links, folders that are too deep, and files that are too large are never read. Move what is no profile out of the folder, or name it in .osmignore."},
	{RuleYAML, SeverityError, "The file is no YAML.",
		"A cluster refuses the file, and keeps the profile as it was before. Mend the line that is named, or the one above it."},
	{RuleSchema, SeverityError, "The document is no OperatingSystemProfile.",
		"Fields that are unknown, missing or of the wrong type, names and versions that are none. A cluster refuses the file."},
	{RuleEmptyFile, SeverityWarning, "The file holds nothing, or comments only.",
		"A profile that was in it is no longer offered: pools that have it keep it, and new ones are refused. Put the profile back, or delete the file, which says what is meant."},
	{RulePassedOver, SeverityNote, "Files that hold manifests of other kinds, which no ProfileSource reads.",
		"ProfileSources, MachineDeployments and cluster files may lie beside profiles, and are not checked. Name the folder of the profiles, or set `profiles` in .osm-gitops.yaml, to look at those alone."},
	{RuleDuplicate, SeverityError, "Two files have the same profile and version.",
		"Which of them counted would be chance, so a cluster refuses both. Remove one, or give it another name or version."},
	{RuleTemplate, SeverityError, "A template cannot be parsed, or fails for pools that the profile claims.",
		"Such a pool gets no configuration. The finding says for which providers, kubelets and settings it holds."},
	{RuleCredential, SeverityError, "What a template renders depends on the content of a credential.",
		"Reviewers see placeholders in place of credentials, so such a template could show them something harmless and give nodes something else. A cluster refuses the profile. " +
			"A credential may be printed, encoded (`b64enc`, `quote`, `indent`, `toYaml`) and asked whether it is there (`{{ if .HTTPProxy }}`). Let the script on the node decide what depends on more."},
	{RuleFile, SeverityError, "A file has a path, mode or content that no node could have.",
		"Paths are absolute, modes have octal digits, content stands inline, and nothing is both a file and the folder of one."},
	{RuleUserData, SeverityError, "The user-data is larger than what a provider or a Secret takes.",
		"Machines could not be created. Move files that the first boot does not need to provisioningConfig, or let the node download them."},
	{RuleCloudInit, SeverityError, "cloud-init refuses a value, or never acts on it.",
		"cloud-init passes over a module with such a value, or does not run it in this stage: a node comes up without what it says."},
	{RuleUnit, SeverityError, "systemd refuses a unit, passes over a part of it, or nothing starts it.",
		"Sections and directives that systemd does not know are passed over with a line in the journal only."},
	{RuleUnitUnknown, SeverityWarning, "A unit depends on one that neither the profile nor the operating system has.",
		"With Requires= or BindsTo= it never starts. Bring the unit, install its package in a script, or suppress the finding with the reason why it is there."},
	{RuleOverlay, SeverityError, "A ProfileOverlay does not apply to its base, or its base is nowhere.",
		"A cluster refuses the file. What is added must not be in the base; what is replaced or removed must. The finding names the place in both."},
	{RuleBaseMoved, SeverityNote, "The base of a ProfileOverlay has a newer version.",
		"The overlay goes on with the version that it names. osm-gitops rebase-overlay shows what the newer one would change, and takes it over."},
	{RuleSetting, SeverityWarning, "A setting in the file of --cluster can hardly do what was meant.",
		"Nodes get it as it is written: a fleet that has it goes on. What no node could use is an error: the controller does not start with it."},
	{RuleIncomplete, SeverityError, "A file was not checked completely, because it took too long.",
		"The finding says what was not done; nothing is known of that. It cannot be suppressed. Make the templates do less, or give more time with --file-timeout."},
	{RuleBranch, SeverityNote, "A branch of a template was not executed in any rendering.",
		"Nothing is known of what stands there. The note says why it could not be reached; what no pool can reach may be removed."},
}

var textRules = []Rule{
	{
		Name: RuleShellSyntax, Severity: SeverityError,
		Summary: "A script that no shell can read.",
		Help: "A shell reads a script as it runs it: everything before the mistake is done, everything after it is not, and the node stays half made. " +
			"Mend it; `bash -n FILE` on what `osm-gitops render -o dir=PATH` writes shows the same.",
	},
	{
		Name: RuleInsecureDownload, Severity: SeverityError,
		Summary: "A download that takes any certificate: `curl -k`, `wget --no-check-certificate`, `sslverify=0` and their like.",
		Help: "Whoever is between the node and the server decides what arrives, and what arrives runs as root. " +
			"Leave the option out. For a CA of your own give the request `--cacert FILE`, or set the pool's CA bundle, which nodes have before they download anything.",
	},
	{
		Name: RuleHTTPDownload, Severity: SeverityError,
		Summary: "A download over http that is not compared with a checksum.",
		Help: "Whoever is between the node and the server decides what arrives, and nothing notices. Use https; where a mirror has http only, compare what arrived " +
			"with a SHA-256 that the profile or the controller's setting `downloadDigests` has. Loopback, link-local addresses and the clouds' metadata services are not meant.",
	},
	{
		Name: RuleUncheckedDownload, Severity: SeverityWarning,
		Summary: "A file is downloaded, and the script compares it with no checksum or signature.",
		Help: "https says which server answered, not that what it has is what was tested: a changed release, a mirror's error page or half a file are taken for the program. " +
			"Compare: `echo \"$sha256  $file\" | sha256sum --check --status`. Looked at are files that curl and wget write, and what goes straight into tar and its like. " +
			"Not meant are requests with credentials or a CA of their own (questions to a service), checksums, signatures and keys, and scripts in which the names are computed and something is compared.",
	},
	{
		Name: RuleUnpinned, Severity: SeverityWarning,
		Summary: "A download or a package without a version: `latest`, a branch, `apt-get install kubelet`.",
		Help: "The same commit of the profile makes another node tomorrow, and the first node that differs is the one that the autoscaler makes at night. " +
			"Write the version and change it in a commit. Of packages only those are meant on which the node's place in the cluster depends: kubelet, kubeadm, kubectl, containerd, runc, Docker, CRI-O. " +
			"The rest of the distribution comes as its repository has it.",
	},
	{
		Name: RuleRunDownload, Severity: SeverityError,
		Summary: "What arrives is run while it arrives: `curl ... | sh`, `bash <(curl ...)`, `eval \"$(curl ...)\"`.",
		Help: "A connection that breaks off leaves half a script that has run, and nobody has compared it with anything. Download it to a file, compare its SHA-256, then run the file; " +
			"better still, put the script into the profile.",
	},
	{
		Name: RuleUnsignedPackages, Severity: SeverityError,
		Summary: "A package manager that takes packages which nobody signed: `--allow-unauthenticated`, `--nogpgcheck`, `gpgcheck=0`, `[trusted=yes]`.",
		Help:    "Whoever can write to the repository or a mirror of it is root on every node. Install the repository's key and leave the check on (`signed-by=`, `gpgcheck=1` with `gpgkey=`).",
	},
	{
		Name: RuleLiteralCredential, Severity: SeverityError,
		Summary: "A private key, a token or a password that stands in the profile.",
		Help: "Everyone who may read the repository has it, now and in its history, and so has everyone who may read OperatingSystemProfiles in the cluster. Revoke it: removing the line does not take it back. " +
			"Nodes get credentials from the controller's settings, the pool, or a Secret that they fetch. Found are private keys, the tokens of some services by their form, and constants that a script, a unit or a " +
			"configuration gives to a name such as `password`, `AWS_SECRET_ACCESS_KEY` or `api_token`, or to `chpasswd`. Paths, variables and names of Secrets are not meant, nor are tokens of fewer than 12 characters. " +
			"What is found is never printed.",
	},
	{
		Name: RuleReadableCredential, Severity: SeverityError,
		Summary: "A file or unit that holds a credential and that every user of the node may read.",
		Help: "A process that has escaped to any account of the node has the credential: of the bootstrap token, of registries, of mirrors and proxies. " +
			"Write `permissions: 600` (a script: 700). A unit's text can be asked of systemd by everybody, so a unit refers to a file: `EnvironmentFile=`, `LoadCredential=`. " +
			"Lint renders with placeholders in place of credentials and finds those.",
	},
	{
		Name: RuleCredentialArgument, Severity: SeverityError,
		Summary: "A credential among the arguments of a program: `curl -H \"Authorization: ...\"`, `curl -u user:password`, `--password ...`.",
		Help: "Every user of the node may read the arguments of every process in /proc, and monitoring sends them on. " +
			"Hand it over in a file of mode 600 (`curl --header @FILE`, `--config FILE`) or by standard input. Builtins of the shell such as echo and printf are no processes.",
	},
	{
		Name: RuleTrace, Severity: SeverityError,
		Summary: "`set -x`, `bash -x` or `curl --verbose` beside a credential.",
		Help: "What is printed ends in the journal, which is kept, sent on and read by more people than the file that the credential came from. " +
			"Leave it out, or write `set +x` before the credential is read and `set -x` after its last use. A `set -x` in a script without credentials is no finding.",
	},
	{
		Name: RuleGoesOn, Severity: SeverityWarning,
		Summary: "A script that goes on after a command failed: no `set -e`, or pipes without `pipefail`.",
		Help: "A node whose setup failed half-way joins the cluster and fails later, where nobody looks for the cause. Begin with `set -euo pipefail` (sh: `set -eu`). " +
			"A script that is to go on says so by setting `-u` or `pipefail` without `-e`; that is no finding, nor is a script of one command, nor `echo ... |`, whose failure means nothing.",
	},
	{
		Name: RuleEval, Severity: SeverityWarning,
		Summary: "`eval` of a value.",
		Help:    "The value is run as a program: a quote in a proxy's URL or in a cloud's metadata is a command of root's. Use an array for arguments, `\"${!name}\"` or `declare -n` for a variable by name, `source FILE` for a file.",
	},
	{
		Name: RuleWorldWritable, Severity: SeverityError,
		Summary: "A file or folder that every user of the node may change: mode 666 or 777, `umask 000`.",
		Help:    "What root runs or reads is then whatever any account has put there. Give others no right to write (755, 644); a folder like /tmp has the sticky bit (1777), and is no finding.",
	},
	{
		Name: RulePasswordlessSudo, Severity: SeverityWarning,
		Summary: "Sudo without a password (`NOPASSWD`).",
		Help:    "Whoever gets into the account, over SSH or out of a process, is root. The images of most clouds have such an account already, made by cloud-init. Leave it out, or justify it in a suppression.",
	},
	{
		Name: RuleAuthorizedKeys, Severity: SeverityWarning,
		Summary: "A profile that writes `authorized_keys`.",
		Help: "Such a key opens every node of every pool with this profile, and withdrawing it takes a new version and new machines. " +
			"SSH keys belong to the pool: `spec.template.spec.providerSpec.value.sshPublicKeys` of the MachineDeployment, which rendering gives to the node's user.",
	},
}

var shellcheckRules = []Rule{{
	Name: RuleShellcheck, Severity: SeverityWarning, Summary: "What shellcheck says about a script, with its number.",
	Help: "Each message has a page with examples at https://www.shellcheck.net/wiki/SC2086 and the like. Errors of shellcheck are errors, its warnings and infos are warnings, its remarks on style are notes. " +
		"The level from which on there are findings is `lint.shellcheckSeverity` in .osm-gitops.yaml; a comment `# shellcheck disable=SC2086` in the script works as ever. " +
		"Without the program scripts are only parsed, and lint says so; `--shellcheck=require` makes that an error.",
}}

var versionRules = []Rule{
	{Name: RuleNotChanged, Severity: SeverityError, Summary: "The content of a profile changed, and its version did not.",
		Help: "A version stands for one content for ever: nodes, records and audits refer to it. The controller refuses the change and goes on with the earlier content. Give the profile a new version. Comments and the order of keys are no content."},
	{Name: RuleReused, Severity: SeverityError, Summary: "A version that an earlier commit of the base has used for other content.",
		Help: "The version stands for the content it had first, also when that file is gone or another branch was merged in between. The controller refuses the change. Take a version that no commit on the first-parent line of the base has used."},
	{Name: RuleBackwards, Severity: SeverityError, Summary: "The version of a profile is lower than that of the base, and its content is none of an earlier release.",
		Help: "Pools that ask for a range such as ~1.8 never get it, and people read the history the wrong way round. Take a version above that of the base. To go back to an earlier release, bring back its content together with its version; that is a rollback, and no mistake."},
	{Name: RuleRollback, Severity: SeverityNote, Summary: "A profile goes back to an earlier release, content and version.",
		Help: "Pools get the earlier release again, as it was. Whoever merges this should know that it goes backwards."},
	{Name: RuleRemoved, Severity: SeverityWarning, Summary: "A profile of the base is gone, its file deleted or emptied.",
		Help: "Pools with the annotation k8c.io/operating-system-profile that name it keep what they have; new pools with it are refused. Give them another profile first. Where `pools` in .osm-gitops.yaml names a folder, the pools are named, and it is a note if none of them names the profile."},
	{Name: RuleRenamed, Severity: SeverityWarning, Summary: "A profile has another name than in the base.",
		Help: "To the cluster that is one profile that is gone and one that is new: pools go on with the old one, and get no change of the new one, until their annotation k8c.io/operating-system-profile names it. Keep the old name beside the new one until the pools have moved."},
	{Name: RuleCollision, Severity: SeverityError, Summary: "Two profiles or versions would become one object of the cluster.",
		Help: "An object is called by the profile's name and its version, such as osp-ubuntu-v1.9.0. Give one of them another name."},
	{Name: RuleNoHistory, Severity: SeverityNote, Summary: "The history of the base is cut off, so that versions of earlier commits were not compared.",
		Help: "A shallow clone has the last commits only. Let CI fetch all of them: `fetch-depth: 0` for actions/checkout, `GIT_DEPTH: 0` for GitLab."},
}

var mirrorRules = []Rule{{
	Name: RuleNotMirrored, Severity: SeverityError,
	Summary: "Something is downloaded that the file of `--mirrors` does not have.",
	Help: "A node without the Internet gets no further than its first download that is not mirrored. Mirror it and add it to the file, " +
		"which `osm-gitops bundle -o mirrors` writes, or take it out of the profile. What only a node knows cannot be compared: make it constant.",
}}

var configRules = []Rule{
	{Name: RuleExpired, Severity: SeverityWarning, Summary: "A suppression in .osm-gitops.yaml whose last day is over.",
		Help: "Somebody meant to come back to it. Mend what it suppresses, or set a later `until` and say in `reason` why."},
	{Name: RuleUnused, Severity: SeverityNote, Summary: "A suppression in .osm-gitops.yaml that suppresses nothing.",
		Help: "Remove it: it would hide the next finding of that rule, for which nobody has given a reason. It is a note, since lint may have been given a part of the repository only."},
}
