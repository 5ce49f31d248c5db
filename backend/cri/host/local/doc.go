// Package local does the host operations on the machine it runs on: Linux, as
// root. It is part of the static helper binary, so it knows neither Kubernetes'
// libraries nor a logger.
//
//	prepare, discard  what starts and leaves with sandboxes and containers
//	volumes           Place, Clear and Volumes; content is a volume's files
//	                  (kubelet: AtomicWriter), ownership its fsGroup, mounts what
//	                  is mounted where
//	subpath, source   paths inside volumes, host paths
//	cgroup, usage     what a pod may use, and what it does use
//	facts             what the host is
//	log, rotate, sweep  logs of containers
//	keep, attend      what runs on the host while no process is connected, and the lock
//	                  that stops it while one is
//	systemlog         logs of the host
//	oom               what its kernel killed for want of memory
//
// Paths that a pod can change are opened step by step and never followed out of
// what they belong to. All state stands in the file system; every operation finds
// what a killed one left and goes on from there.
//
// It is large because it is all of one interface, [host.Host], whose operations share the
// walk of paths that pods can change, the locks and the cgroups.
package local
