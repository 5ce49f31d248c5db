// Package taskstats reads the statistics that a task's metadata endpoint gives of its
// containers, as [backend.PodStats]. It is pure: package session asks the task.
package taskstats
