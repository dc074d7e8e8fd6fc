// Package rollout lets versions of profiles reach pools wave by wave, and has the machines
// of pools replaced that ask for it.
//
// It decides how far a version has come and writes that into status.rollouts of the
// ProfileSource, nothing else; which version a pool gets of it is a pure function in
// package selection, by which package pools renders. Machines are replaced by
// machine-controller, which is told by a stamp on the pool's template. Start with
// Reconciler.Reconcile, decide for waves and toStamp for machines.
package rollout
