// Package lineage follows a node to the commit that it was provisioned from: which configurations
// its pool had and in which order, which of them its machine can have booted from, and the names of
// the objects in between. It has no client: FollowOwners and FindArchivedRecord read through an
// interface, all other functions get objects. Package dump is the format of a file with the
// objects of such chains. Start with FollowOwners, NewTimeline and DetermineConfiguration.
package lineage
