// Package e2e runs the burstlet program against a real control plane and four
// kinds of remote: the simulation in both granularities, containers on
// containerd, and tasks on the ECS test server. Its tests:
//
//   - scenarios: one table of pod lives, the same on every remote;
//   - same name: a pod deleted and made anew under its name, many times, while
//     the old one is still stopping;
//   - kill: the program killed with SIGKILL at random moments of a rollout;
//   - bad input: errors that name the thing and say what to do.
//
// Every node runs with a node's own credential, under the Node authorizer and
// NodeRestriction.
package e2e
