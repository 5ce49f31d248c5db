// Package metered decorates a backend with metrics of every call, under the
// kubelet's own names for its container runtime (kubelet_runtime_operations_*)
// with CRI's words for operations where it has one, and errors by class besides.
// A nil field stays nil. Labels have values of bounded sets only.
package metered
