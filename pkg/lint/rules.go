package lint

import "slices"

// The rules of the engine.
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

// Rules describes the rules of the engine.
func Rules() []Rule { return slices.Clone(engineRules) }
