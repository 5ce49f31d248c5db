// Package statusmgr is the only writer of pod status and the only deleter of
// pods in the API. The engine says what a pod's status is; this package sees to
// it that the API says the same, with as few writes as possible and whatever
// fails in between.
//
// A status' way:
//
//	engine ── SetStatus(pod, status) ─┐                    informer ── Observe(pod) ─┐
//	engine ── Reclaimed(uid) ───────┐ │                                              │
//	                                │ │ wanted.go: refuse an illegal transition,     │
//	                                │ │ keep terminal phase, start and transition    │
//	                                │ │ times, bound messages (bounds.go)            │
//	                                v v                                              v
//	                      ┌─ entry[UID]: wanted status + version · newest API object ─┐
//	                      └───────────────────────┬──────────────────────────────────┘
//	                                              v
//	                     queue.go: ready FIFO, delayed heap, one writer per UID
//	                                              v   at most Config.Writers at once
//	                     writer.go: merge.go lays wanted over what the API holds
//	                                   │ equal: nothing to write
//	                                   │ terminal but something may run: phase held back
//	                                   v
//	                     PATCH pods/status (UID, version in it) ── reply ──> entry
//	                                   │ deletionTimestamp, Reclaimed, nothing runs,
//	                                   v the API shows a terminal phase
//	                     DELETE pod (grace 0, UID precondition), once
//
// The rules, each with a test of its name:
//
//   - Latest wins. A status set while an older one is being written, or while
//     its write is being retried, replaces it; no write is lost.
//   - What nobody acts on waits for what follows it: 250 ms for a pod that the
//     API has heard nothing of, then 1 s (urgency.go). Phase, readiness, a
//     container's start and end, reasons and messages are written at once. Of a
//     pod that is deleted in the next moment, nothing more is said. The ends of
//     all containers of a pod that somebody deletes wait as long as the first
//     status for that of the sandbox, which most often comes before: one write
//     tells both.
//   - The comparison is with what the API holds, never with what was last sent,
//     so a condition of ours that somebody flipped is written again, and an
//     equal status costs nothing. In the normal path there is no GET: the
//     baseline is the newest of the observed object and the last reply.
//   - Conditions of others survive. Ours are Initialized, Ready,
//     ContainersReady, PodReadyToStartContainers, the two of a resize,
//     AllContainersRestarting, and any type that the wanted status carries.
//     DisruptionTarget is shared: it goes out with the terminal phase.
//   - A terminated container comes back only if its restart policy says so.
//   - A terminal phase waits until Safety says that no container can run, never
//     changes again, and takes Ready and ContainersReady with it.
//   - A patch carries the resourceVersion: it cannot overwrite a terminal phase
//     that it did not know of, and it cannot meet a delete by force half done,
//     which would make the API server delete the successor. A pod that is known
//     to be there is not written at all.
//   - A pod is deleted only after the API shows its terminal phase, and only
//     once: a finalizer may keep it for long after.
//   - A name that holds another UID means that our pod is gone: its status is
//     dropped and never written to the successor.
//
// Everything is triggered: no write waits for a ticker. The wanted status of a pod
// that nothing happens to is the API object's own: it is in memory once.
// [Manager.Run] owns every
// goroutine; [Manager.Flush] drains what is left when Run has ended.
//
// The behaviour follows the kubelet's status manager
// (pkg/kubelet/status/status_manager.go, Kubernetes 1.36). Where it differs the
// comment at that place says why.
package statusmgr
