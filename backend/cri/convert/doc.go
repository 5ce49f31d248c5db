// Package convert turns pods and their containers into what is asked of a container runtime
// and its host, purely: it calls nothing.
//
//	sandbox, security, dns      the configuration of a sandbox
//	container, mounts, hosts    that of a container, and what is mounted in it
//	resources, qos, swap        what the kernel enforces; hugepages too
//	cgroup                      the cgroup of a pod, and those above it
//	volumes, hostpath           what the host makes, or mounts, of volumes
//	users, hostports            what pods of a host may not have in common
//	labels                      what a sandbox or container says of itself, and how it is read back
//	dryrun                      all that a launch asks, without a launch
//
// A [Converter] holds the node's configuration. What depends on the runtime or the host (the
// driver of cgroups, the user of an image, facts of the host) is given to it.
package convert
