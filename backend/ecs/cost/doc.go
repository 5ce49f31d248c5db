// Package cost counts what the tasks of a node cost, from what ECS shows of them: per second from
// the start of the pull to the stop, at least a minute, by the prices of package fargate. It asks
// nobody, and keeps what it counted for the life of a process.
package cost
