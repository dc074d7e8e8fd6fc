package notify

import (
	"fmt"
	"strings"
	"time"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// maxMessage is the limit of an Event, in characters; we count bytes.
const maxMessage = 39000

// Recorder records events, and also forwards those of ProfileSources.
type Recorder struct {
	events.EventRecorder
	// Sender posts them.
	Sender *Sender
	// Instance names this process.
	Instance string
}

// Eventf records an event.
func (r Recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, eventtype, reason, action, note, args...)
	if ps, ok := regarding.(*api.ProfileSource); ok {
		e := newEvent(ps, eventtype, reason, fmt.Sprintf(note, args...))
		e.ReportingInstance, e.Timestamp = r.Instance, metav1.NewTime(time.Now())
		r.Sender.Send(e)
	}
}

// newEvent builds the notification, without time and sender.
func newEvent(ps *api.ProfileSource, eventtype, reason, text string) eventv1.Event {
	severity := eventv1.EventSeverityInfo
	if eventtype == corev1.EventTypeWarning {
		severity = eventv1.EventSeverityError
	}
	return eventv1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: api.GroupVersion.String(), Kind: "ProfileSource",
			Namespace: ps.Namespace, Name: ps.Name, UID: ps.UID, ResourceVersion: ps.ResourceVersion,
		},
		Severity:            severity,
		Message:             redact.Shorten(redact.BreakMarkup(redact.PrintableText(text, maxMessage)), maxMessage),
		Reason:              reason,
		Metadata:            eventMetadata(ps, reason),
		ReportingController: api.FieldManager,
	}
}

// eventMetadata returns the keys that the notification-controller forwards: those of the
// object's group, and those that users set on the object for this purpose. The revision
// is included only in events about a revision: otherwise a Git host would show the
// failure of an unreachable repository at an unrelated commit.
func eventMetadata(ps *api.ProfileSource, reason string) map[string]string {
	out := map[string]string{}
	for key, value := range ps.Annotations {
		if strings.HasPrefix(key, eventv1.Group+"/") {
			out[key] = redact.PrintableLine(value)
		}
	}
	revision := ps.Status.LastAttemptedRevision
	switch reason {
	case api.EventSourceFailed, api.EventWebhookUnusable, api.EventCommitStatusRefused, api.EventNameCollision:
		revision = ""
	}
	if revision != "" {
		out[api.GroupVersion.Group+"/"+eventv1.MetaRevisionKey] = redact.PrintableLine(revision)
	}
	return out
}
