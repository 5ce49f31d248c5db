// Package backend is the contract between the engine and a remote that runs
// pods. It imports no SDK and knows nothing of the engine above it.
//
// A [Backend] is a struct of small interfaces. A nil field means "this remote
// cannot do that", and the engine plans around it: without Containers the pod
// is the unit of restart, without Images the remote pulls by itself, without
// Events only the poll interval bounds how late a change is seen. Nothing is found
// by type assertion, so nothing is hidden from a decorator; package intercept has
// the table of all calls, and wraps them. What an engine plans by is one value,
// [Traits].
//
// The rules every backend keeps, checked by package backendtest:
//
//   - Facts, not states. A backend returns what it saw: ids, times, exit codes.
//     Phase, conditions and restarts are decided above.
//   - The remote is the database. Node, pod UID, namespace, name, attempt and
//     spec hash stand on the remote object from the moment it is made, so List
//     restores all that a restarted engine needs.
//   - Launch and Start are idempotent by UID and attempt, even if a reply was
//     lost: calling them again returns what the first call made.
//   - Stop asks and returns. The engine asks again until facts show the exit.
//   - Remove is repeated until it returns [ErrNotFound]. That alone proves that
//     nothing is left that runs, holds an address or a mount, or is billed.
//   - Reads see our own writes: what Launch or Start returned nil for is in
//     every later List and Inspect until it is gone for certain. A remote that
//     is eventually consistent hides that inside its backend.
//   - An error from a read means "unknown", never "gone".
//   - What a backend changes by itself, in Run, it asks a [Permit] for: another
//     process may hold the node by now.
//   - Arguments and facts are plain values that can be serialised, but for the
//     streams of the calls that move data, so that the contract works in one
//     process and over a socket.
//
// Errors carry one of nine classes, chosen where they arise: see errors.go.
//
// It is large because it is one contract: each capability has a file of its own, short, and
// whoever implements or decorates a backend needs them side by side.
package backend
