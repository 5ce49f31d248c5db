// Package metered decorates a backend with metrics of every call, under the
// kubelet's own names for its container runtime (kubelet_runtime_operations_*)
// with CRI's words for operations where it has one, and errors by class besides.
// The words stand in the table of package intercept. A nil field stays nil. Labels have
// values of bounded sets only.
//
// It imports the contract and the table of its calls.
package metered
