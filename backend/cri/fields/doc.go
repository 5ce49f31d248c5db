// Package fields says what becomes of each field of a pod on a container host: which
// are refused, and what is done with the others. It is pure: it judges the pod alone,
// not a host, and imports the contract and nothing else of the project.
package fields
