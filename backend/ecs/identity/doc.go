// Package identity says who a task is for, and derives from it the names of what
// burstlet keeps in AWS: families of task definitions, client tokens, tags, secrets,
// log streams. A later process, and other parts of AWS, know by them what is whose.
//
// It is pure and imports package backend and the SDK's types alone.
package identity
