// Package funcs has the functions that templates may call: the pure ones of sprig and
// the contract's own. Each has a price and a bound, by which a Set charges the meter of
// a rendering before it calls one and refuses what would take too much memory.
package funcs
