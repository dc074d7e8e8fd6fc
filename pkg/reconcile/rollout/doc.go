// Package rollout lets versions of profiles reach pools wave by wave, and has the
// machines of pools replaced if they request it.
//
// It decides how far a version has been rolled out and writes only that, into
// status.rollouts of the ProfileSource; package selection has the pure function that
// selects the version of a pool from it, and package pools renders that version.
// machine-controller replaces machines when this package changes an annotation on the
// pool's template.
//
// Start with Reconciler.Reconcile: observe.go reads, plan.go decides without a client and a clock,
// apply.go writes, report.go emits events. newPlan calls waves.NextStatus for each profile, and for
// machines package replacements: Decide decides which pools wait for a maintenance window, which
// windows.go evaluates, and PlanTemplates which of the others are next.
package rollout
