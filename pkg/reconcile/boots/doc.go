// Package boots reads what the booting machines of pools report into BootReports, and concludes
// which line of which profile failed, of which commit and author: into the status of the
// BootReport, an event, the audit log and metrics.
//
// It never trusts a report: an entry counts only for a young Machine of the pool without a Node, with
// a configuration that the pool had while the machine booted. No log text leaves the BootReport, and
// everything else is masked again. It never decides what a node gets.
//
// Start with Reconcile in controller.go. plan.go decides without a client, cause.go finds the line.
package boots
