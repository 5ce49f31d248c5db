// Package session reaches into tasks that run: it lends backend.Exec, Attacher,
// Forwarder, Dialer and Stats.
//
// A [Pool] keeps one session of ECS Exec for each task that is used (open.go), in
// burstlet-agent, and over it one SSH connection to burstlet-task's own server
// (channel.go). exec.go, attach.go, forward.go and stats.go each lend one capability;
// grace.go tells containers that they have less time to end.
// What it needs to know of tasks is [Tasks]; it keeps nothing of them but its sessions.
//
// It imports awscall, identity, intask for the protocol, ssm for the data channel of ECS Exec,
// pause, sshchannel and taskstats.
package session
