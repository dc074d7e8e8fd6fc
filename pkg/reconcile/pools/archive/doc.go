// Package archive keeps the records of configurations that were replaced, as
// ControllerRevisions, and the settings that records name, as ConfigMaps. It deletes what
// is beyond the limits, but never what a NodeProvenance or a configuration names.
//
// Archive has the entry points: Keep before a configuration is deleted, EnsureSettings
// before one is created, Find to read a record, Run to delete.
package archive
