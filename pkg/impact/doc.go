// Package impact says what a change of profiles does to pools before anybody merges it:
// which pools get other files, which do not and why, and what cannot be rendered. It is
// pure: snapshots of two revisions and the facts of pools in, a Report out; no cluster, no
// clock. It never sees a credential: what it knows of pools is a Fleet, which holds
// placeholders. Start with Fleet and Compare.
package impact
