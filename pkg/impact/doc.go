// Package impact reports the effect of a change of profiles on pools before it is merged:
// which pools get other files, which do not and why, and what cannot be rendered. It is a
// pure function of snapshots of two revisions and the facts of pools, and uses no cluster
// and no clock. It contains no credentials: its data about pools is a PoolSnapshot, which has
// placeholders. Start with PoolSnapshot and Compare.
package impact
