// Package syncloop is the engine: what makes a kubelet a kubelet, over a remote
// runtime.
//
//	podsource ──changes──► Loop ──pod──► worker[UID] ──actions──► backend
//	                        ▲                │  ▲                    │
//	                        │           status  └──────facts────── pleg
//	                        │                ▼
//	                    statusmgr ◄──────────┘
//
// The Loop only dispatches; it never calls the remote. One worker per pod UID
// owns all that is known of that pod: it gathers one [plan.Input], asks [plan.Decide]
// what to do, reports the status, keeps the hooks and probes running that the plan
// names, and has the actions executed (package execute), one batch at a time. What is
// decided stands in package plan, which is pure.
//
// A UID goes syncing -> terminating -> terminated and never back:
//
//	syncing      sandbox, init containers in order, app containers, restarts
//	terminating  stop with what is left of the grace, until facts show the exit
//	terminated   nothing runs; deleted pods are removed from the remote until
//	             the backend proves that nothing is left
//
// What is known after the process restarts (the backend's listing and the
// API's status restore the rest):
//
//	facts            listed again; nothing is decided before the first complete list
//	pod status       what the API holds, the base for what cannot be listed any more
//	crash backoff    forgotten: the next crash restarts at once, as after a kubelet's restart
//	pull backoff     forgotten: the next pull is tried at once
//	grace            what is left of it by the pod's deletionTimestamp
//	lost launches    assumed for every pod without facts: replayed, or waited out
//	refused tries    as the API's condition says (AwaitingCapacity)
//	progress         as the API shows it; a listing that shows less may be old (Limits.Stale)
//	allocation       requests as the API says they were allocated, limits as they are held;
//	                 what the remote shows beyond was allocated too, its word lost
//	resize           under way while the API says so: what is not held yet is asked again
//	admission        a pod with facts or a started container is admitted
//	volumes          listed with their hashes: only changed contents are placed again
//	tokens           kept until their time, by the age of their volume
//	probes           run again; ready and started stay as the API says meanwhile
//	postStart        a running container counts as hooked
//	preStop          runs again while grace is left
//	evictions        decided again once the pods' host and local storage are measured;
//	                 grace and transition periods of thresholds begin anew
//	OOM Events       not repeated for ends that the API's status shows
//	age of images    forgotten: they are known, and last used, from now on
//	terminations     of single containers: decided again from hashes and probes
//
// It is large because a pod's worker is one owner of one state: what it gathers, has
// done and remembers ends and begins together. What can be decided or done apart from it is
// in packages.
package syncloop
