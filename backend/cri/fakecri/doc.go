// Package fakecri is a container runtime for tests: CRI v1 and containerd's
// event service on a unix socket, with the state and the manners of containerd
// 1.6 (reserved names, calls that are given up with their callers, StopContainer
// that kills only while its call lives, errors without codes) and without any
// container.
//
// Tests make containers exit with [Server.Exit], inject failures with
// [Server.Before], lost replies with [Server.After] and what happens meanwhile with
// [Server.Amid], and count calls.
package fakecri
