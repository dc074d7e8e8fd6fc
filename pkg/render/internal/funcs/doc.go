// Package funcs has the functions that templates can call: the pure ones of sprig, and those that
// operating-system-manager adds. Each has a price and a bound. Before a call, a Set charges them to
// the meter of a rendering and rejects the call if it would need too much memory.
package funcs
