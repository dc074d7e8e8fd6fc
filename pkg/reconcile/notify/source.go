package notify

import (
	"fmt"

	"k8s.io/client-go/tools/events"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// EmitSourceEvent records an event about a ProfileSource.
func EmitSourceEvent(recorder events.EventRecorder, ps *api.ProfileSource, kind, reason, format string, args ...any) {
	recorder.Eventf(ps, nil, kind, reason, "Sync", "%s", redact.Shorten(redact.RemoveControlChars(fmt.Sprintf(format, args...)), redact.MaxEvent))
}

// PluralizeWithVerb returns phrase.Count with a verb, such as "1 profile is".
func PluralizeWithVerb(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return phrase.Count(n, noun) + " are"
}
