// Package ecsprocess runs test/cmd/ecs with real containers as a process of its
// own: the ECS of the end-to-end tests, of make conformance BACKEND=ecs and of the
// demo. [Start] hands it images, reads where it serves, and ends it, also when the
// owner is killed.
//
// [Process.Section] is the backend section of burstlet's configuration for it, and
// [Access] the credentials: it takes any.
package ecsprocess
