// Package logs reads CloudWatch Logs: what containers wrote, for backend.Logs (open.go), and
// what the log of one that ended says of its end (terminations.go), which package task
// waits for a while. streams.go is the service within its rate.
//
// It imports task, awscall, identity, and intask for the reports of supervisors.
package logs
