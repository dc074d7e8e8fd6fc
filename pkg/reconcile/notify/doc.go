// Package notify sends what happens to ProfileSources to Flux's
// notification-controller, which passes it on to chats and Git hosts by its Alerts.
// Recorder stands in for the recorder of Kubernetes events and sends each event of a
// ProfileSource on; Sender is the queue and the one worker behind it. Nothing waits
// for the notification-controller, and what it does not take is lost, not kept: the
// conditions hold what is true.
//
// Flux's own recorder, in fluxcd/pkg/runtime/events, records events of the older
// group and posts while its caller waits, so it does not fit here.
package notify
