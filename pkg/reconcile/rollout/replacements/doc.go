// Package replacements decides which pools have their machines replaced because their configuration
// changed, which of them wait for a maintenance window, and how many begin at the same time. It is
// pure: the state of pools and machines is given, and it reads and writes no objects. Start with
// Decide; PlanTemplates has the order in which templates are annotated, on which machine-controller
// replaces machines.
package replacements
