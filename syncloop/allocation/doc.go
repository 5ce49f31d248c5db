// Package allocation compares and recovers the cpu and memory that a pod is allocated:
// what the API asks for, what was granted, and what the kernel holds its containers to.
// It is pure: it imports the API's types and the backend's facts, and nothing that acts.
package allocation
