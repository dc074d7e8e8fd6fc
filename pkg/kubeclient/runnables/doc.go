// Package runnables has what several packages add to a manager: another cache, and a runnable for every
// replica.
package runnables
