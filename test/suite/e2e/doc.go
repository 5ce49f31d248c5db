// Package e2e runs the burstlet program against a real control plane and five
// kinds of remote: the simulation in both granularities and in a process of its
// own, containers on a host that is reached over SSH, and tasks on the ECS test
// server. Its tests:
//
//   - scenarios: one table of pod lives, the same on every remote;
//   - behaviours: one table of what users rely on, on the remotes that can do it:
//     environment, volumes, tokens, probes, hooks, sidecars, changes, admission;
//   - refused deployment: pods that can never run do not flood the cluster;
//   - same name: a pod deleted and made anew under its name, many times, while
//     the old one is still stopping;
//   - kill: the program killed with SIGKILL at fifty random moments of a rollout,
//     on a host over SSH and on a simulated remote;
//   - ssh: a node cut off its host for seconds or ten minutes (-sshcut), sshd and
//     containerd killed, the host rebooted, keys and host keys changed, its disk
//     full; nothing is doubled or left, and nothing stands on the wrong disk;
//   - host: what the fields of a pod come to in real containers, row by row; logs as
//     a collector finds them;
//   - remote dies: the remote killed, with all that runs on it;
//   - bad input: errors that name the thing and say what to do;
//   - upstream: virtual-kubelet's own end-to-end suite;
//   - rights: every endpoint of the kubelet API by callers with one right each,
//     what a node's credential cannot do, and section 4.2 of the CIS Kubernetes
//     Benchmark;
//   - kubectl: the verbs that end at a node, and top with metrics-server.
//
// Every node runs with a node's own credential, under the Node authorizer and
// NodeRestriction.
package e2e
