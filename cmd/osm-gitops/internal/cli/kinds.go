package cli

import (
	"slices"
	"strings"
)

// aliases are the words for a kind in arguments, in addition to its name: those of kubectl, and those
// of this program.
var aliases = map[string][]string{
	"node":              {"nodes", "no"},
	"nodeprovenance":    {"nodeprovenances", "np"},
	"machine":           {"machines", "ma"},
	"machinedeployment": {"machinedeployments", "md", "pool", "pools"},
	"osc":               {"oscs", "operatingsystemconfig", "operatingsystemconfigs"},
	"osp":               {"osps", "operatingsystemprofile", "operatingsystemprofiles", "profile", "profiles"},
	"source":            {"sources", "ps", "profilesource", "profilesources"},
	"rollout":           {"rollouts"},
	"window":            {"windows"},
	"secret":            {"secrets"},
	"commit":            {"commits"},
}

// CanonicalKind returns the name of a kind for any of its words, singular or plural, with or
// without the group of the API; "" for an unknown one.
func CanonicalKind(word string) string {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	for name, others := range aliases {
		if word == name || slices.Contains(others, word) {
			return name
		}
	}
	return ""
}
