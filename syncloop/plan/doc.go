// Package plan decides what to do with one pod. [Decide] reads one [Input] (the pod
// that the API wants, the facts that the remote shows, what is remembered) and returns
// one [Plan]: actions, status, hooks, probes and Events, all of them data. The engine
// (package syncloop) gathers the input, executes the plan and records each [Result] in
// the pod's [Memory].
//
// The package is pure. It has no goroutine, channel, lock, clock, client or logger, so
// that every rule of the kubelet is a table that a test can read; depguard holds its
// imports and TestPure the rest. It may import the API's types, the backend's facts, and
// the values and rules of admit, allocation, images, prober, resolve and volumes.
//
// It is larger than a package should be because it is one decision over one Input: the
// status that it reports and the actions that it plans follow from the same rules about
// restarts, order and ends, and must never disagree. Each file is one rule table:
//
//	decide             the order of the rules; orders to end a pod
//	container          what is next for one container; restart has its backoff
//	restart_all        all containers restart because one of them ended
//	init_containers    their order, and the sidecars'
//	task               pods that are launched whole
//	end, stop          the end of pods and of containers; what is removed then
//	env_files          files that variables come from, read before a start
//	hooks, probes      which should be running now
//	volumes            what is placed and refreshed, and what keeps it from that
//	resize             resources that change in place
//	phase              status, phase and conditions; container_status has the containers'
//	actions, stages    what can be done, and in which order
//	input, record      what a decision depends on, and what the results of actions leave
//	facts              questions about what the remote shows
package plan
