// Package chart tests the Helm chart and the manifests for kustomize with Helm, kubectl
// and a control plane as they are: what is rendered, what is refused with which words,
// what the API server takes, and what an upgrade would do.
//
// testdata/values are sets of values, testdata/golden what they become. The schema of
// the values, the golden files and the manifests of deploy/kustomize are written anew by
//
//	go test ./test/suite/chart -update
package chart
