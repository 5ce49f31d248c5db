// Package clients makes the SDK's clients of the services that backend/ecs uses, with
// one layer of retries, counts the requests that they send, and asks
// before each that changes something whether it may leave. It imports package
// backend, and awscall for the classes of errors.
package clients
