// Package explain says what a pod would become on a container host, without a host: the
// sandbox, its cgroup, the volumes, and the containers in the order in which they start.
//
//	explain.go    a Preview out of the requests of a dry run (backend/cri)
//	order.go      when containers start, restart and end
//	preview.go    what a Preview holds
//
// It may import backend, backend/cri and backend/cri/host.
package explain
