// Package containerhost starts a real containerd that shares as little as
// possible with the machine it runs on: the remote of the tests and the demo.
//
// A [Host] is a set of namespaces (package namespaces) that a shell script,
// init.sh, runs as PID 1:
//
//   - /run, /tmp, /var/lib, /var/log and /var/tmp are its own, so network
//     namespaces, CNI's address book, shim sockets and locks are not the
//     machine's. The network has a bridge for pods and no way out.
//   - The state directory is the machine's, at the same path on both sides: the
//     CRI socket, pod logs and volumes stand there. What the machine mounts
//     below it becomes visible inside (tmpfs volumes, say), never the reverse.
//   - Cgroups are the machine's, so that pod limits can be set from outside.
//
// containerd, shims and containers never outlive the process that owns the
// host. What a killed owner leaves, a directory, a bind mount and empty cgroups,
// is removed by the next [Start].
//
// containerd can be killed and started again without harm to the containers.
//
// A process outside reaches the CRI socket. It reaches pods and the streaming
// server (exec, attach, port-forward) through [Host.DialContext], or, with
// Config.Linked, by plain dialling.
package containerhost
