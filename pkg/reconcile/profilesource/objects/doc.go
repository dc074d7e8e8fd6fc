// Package objects creates the OperatingSystemProfiles of profile versions, with their provenance,
// or the CustomOperatingSystemProfiles of a seed of KKP. It rejects a version whose object has
// other content or another owner.
//
// It never changes an OperatingSystemProfile, and does not decide which versions exist. Start with
// Writer.Ensure.
package objects
