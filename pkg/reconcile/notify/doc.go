// Package notify sends events of ProfileSources to Flux's notification-controller, which
// forwards them to chats and Git hosts by its Alerts. Recorder wraps the recorder of
// Kubernetes events and forwards each event of a ProfileSource; Sender is the queue with
// its single worker. Nothing waits for the notification-controller, and events that it
// does not accept are lost: the conditions have the current state.
//
// Flux's own recorder, in fluxcd/pkg/runtime/events, records events of the older API
// group and blocks its caller while it posts, so it is not suitable here.
package notify
