// Package transport carries calls to a container runtime: over one gRPC connection, or by the
// host itself where they must be finished there.
//
//	transport   the connection: made in Run, lazily dialled, redialled
//	hostcalls   which calls the host makes, and how it is asked to
//	reads       which calls change nothing; every other asks for a permit as it is sent
//	errors      the runtime's words without gRPC's, and the class of an error
package transport
