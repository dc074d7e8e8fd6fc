// Package archive stores the records of replaced configurations as ControllerRevisions, and
// the settings that records name as ConfigMaps. It deletes those beyond the limits, but never
// one that a NodeProvenance or a configuration names.
//
// Archive has the entry points: Store before a configuration is deleted, EnsureSettings
// before one is created, FindRecord to read a record, Run to delete.
package archive
