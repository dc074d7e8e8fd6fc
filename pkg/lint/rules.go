package lint

// The rules of the engine.
const (
	RuleUnreadable   = "unreadable"
	RuleYAML         = "yaml"
	RuleSchema       = "schema"
	RuleDuplicate    = "duplicate"
	RuleTemplate     = "template"
	RuleFile         = "file"
	RuleUserData     = "user-data-limit"
	RuleCloudInit    = "cloud-init"
	RuleUnit         = "unit"
	RuleUnitUnknown  = "unit-unknown"
	RuleBranch       = "branch-not-reached"
	RuleNotSupported = "not-rendered"
)

// Rules describes every rule, in the order of their names.
func Rules() []Rule {
	return []Rule{}
}
