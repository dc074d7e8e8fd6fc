// Package lineage follows a node to the commit that it was provisioned from: which
// configurations its pool had and in which order, which of them its machine can have booted
// from, and how the objects in between are called. It is given objects and never reads a
// cluster. Start with NewTimeline and Conclude.
package lineage
