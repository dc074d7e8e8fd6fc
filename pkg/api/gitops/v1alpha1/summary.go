package v1alpha1

import (
	"fmt"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lengths in characters with which kubectl get profilesources fits a line of 120.
const (
	maxSummaryMessage = 40
	shortRevision     = 12
)

// ProfileSourceSummary has texts for columns, which JSONPath cannot compose. Only other
// fields of the object decide what it contains.
// +kubebuilder:object:generate=false
type ProfileSourceSummary struct {
	// Revision has the first 12 digits of status.revision.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Rollout is "adopted/total" of the pools of all rollouts that are not done, and "Done" if
	// all are; absent without waves.
	// +optional
	Rollout string `json:"rollout,omitempty"`
	// Message is the first problem, or else what was applied, in at most 40 characters. The
	// conditions have all of it.
	// +optional
	Message string `json:"message,omitempty"`
}

// Summarize sets the summary. Each writer of the conditions or rollouts calls it before it
// writes the status.
func (s *ProfileSource) Summarize() {
	s.Status.Summary = &ProfileSourceSummary{
		Revision: abbreviateRevision(s.Status.Revision),
		Rollout:  s.rolloutSummary(),
		Message:  s.messageSummary(),
	}
}

func (s *ProfileSource) rolloutSummary() string {
	if !s.HasWaves() || len(s.Status.Rollouts) == 0 {
		return ""
	}
	removed := map[string]bool{}
	for _, e := range s.Status.Profiles {
		removed[e.Name] = e.Removed
	}
	var pools RolloutPools
	running := false
	for _, r := range s.Status.Rollouts {
		if r.Done || removed[r.Profile] { // a removed profile is not rolled out further
			continue
		}
		running = true
		pools.Adopted += r.Pools.Adopted
		pools.Total += r.Pools.Total
	}
	if !running {
		return "Done"
	}
	return fmt.Sprintf("%d/%d", pools.Adopted, pools.Total)
}

func (s *ProfileSource) messageSummary() string {
	ready := apimeta.FindStatusCondition(s.Status.Conditions, meta.ReadyCondition)
	if ready == nil {
		return ""
	}
	text := ready.Message
	rolled := apimeta.FindStatusCondition(s.Status.Conditions, RolledOutCondition)
	if ready.Status == metav1.ConditionTrue && rolled != nil && rolled.Reason == ReasonRolloutHeld {
		text = rolled.Message
	}
	// A list of problems follows a line that counts them.
	if _, list, ok := strings.Cut(text, "\n- "); ok {
		text = list
	}
	text, _, _ = strings.Cut(text, "\n")
	for _, revision := range []string{s.Status.Revision, s.Status.LastAttemptedRevision} {
		if revision != "" {
			text = strings.ReplaceAll(text, revision, abbreviateRevision(revision))
		}
	}
	if s.Spec.Suspend && !strings.HasPrefix(text, "suspended") {
		text = "suspended; " + text
	}
	if runes := []rune(text); len(runes) > maxSummaryMessage {
		text = strings.TrimRight(string(runes[:maxSummaryMessage-1]), " ") + "…"
	}
	return text
}

// abbreviateRevision returns the first digits of the commit or digest of a revision.
func abbreviateRevision(revision string) string {
	digits := revision[strings.LastIndex(revision, ":")+1:]
	return digits[:min(len(digits), shortRevision)]
}
