// Package e2e runs the burstlet program against a real control plane and five
// kinds of remote: the simulation in both granularities and in a process of its
// own, containers on a host that is reached over SSH, and tasks on the ECS test
// server. Its tests:
//
//   - host: one node, whose host is reached over SSH. What the fields of a pod come
//     to in real containers, row by row, and what all remotes pass (below); in the
//     end burstlet is killed. With rights this is what "make test" runs;
//   - scenarios: one table of pod lives, the same on every remote;
//   - behaviours: one table of what users rely on, on the remotes that can do it:
//     environment, volumes, tokens, probes, hooks, sidecars, changes, admission;
//   - kubectl: the verbs that end at a node, and top with metrics-server;
//   - refused deployment: pods that can never run do not flood the cluster;
//   - same name: a pod deleted and made anew under its name, many times, while
//     the old one is still stopping;
//   - kill: the program killed with SIGKILL at random moments of a rollout, on a
//     host over SSH, on a simulated remote and on ECS;
//   - host chaos: a Deployment, a StatefulSet and Jobs on a host while burstlet is killed
//     two hundred times (-hostkills), or its connections are cut and reset (-hostbreaks);
//     each container notes on the host that it runs;
//   - ssh: a node cut off its host for seconds or ten minutes (-sshcut), sshd and
//     containerd killed, the host rebooted, keys and host keys changed, its disk
//     full; nothing is doubled or left, and nothing stands on the wrong disk; logs
//     as a collector finds them, and as the host keeps them without burstlet;
//   - remote dies: the remote killed, with all that runs on it;
//   - leader frozen, outage: of two processes one sleeps; the API server is away;
//   - bad input: errors that name the thing and say what to do;
//   - upstream: virtual-kubelet's own end-to-end suite;
//   - rights: every endpoint of the kubelet API by callers with one right each,
//     what a node's credential cannot do, and section 4.2 of the CIS Kubernetes
//     Benchmark.
//
// Tests stand in line (turn): three that keep a core busy run at once, and beside them six of
// those that wait. Their lanes are those of package lane; smaller counts of kills and
// pods in the gate than in "make test-all".
//
// Environment: BURSTLET_PROGRAM names a burstlet that is built; BURSTLET_RACE=1 has it
// built with the race detector; BURSTLET_SEED repeats the random choices of a run.
//
// Every node runs with a node's own credential, under the Node authorizer and
// NodeRestriction.
package e2e
