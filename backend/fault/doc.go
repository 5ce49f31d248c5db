// Package fault decorates a backend with failures: errors, delays, calls that
// happen although their reply is lost, listings that are partial or stale, and
// hints that are dropped or repeated, and a clock that is off.
//
// A [Script] says what goes wrong. Rules given with [Script.Add] apply to the
// next calls of a method and then are spent; a Decide function, asked about
// every other call, draws faults from a seed. [Wrap] puts a Script around every
// field of a backend. A nil field stays nil, and Check, which calls no remote,
// is left alone. One Script may serve several backends in turn, so that it goes
// on across the restarts of an engine.
//
// It imports the contract and the table of its calls.
package fault
