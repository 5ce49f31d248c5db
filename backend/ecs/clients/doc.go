// Package clients makes the SDK's clients of the services that backend/ecs uses, with
// one layer of retries, and counts the requests that they send. It imports package
// backend, and awscall for the classes of errors.
package clients
