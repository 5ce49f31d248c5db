// Package binaries builds the programs that tests need from pinned Go modules
// and keeps them in a cache outside the checkout.
//
// What is built is fixed by the module files beside this one, which are
// embedded: kubernetes.mod and kubernetes.sum, those of API servers of other versions
// (kubernetes-1.34.mod, for example), and those of etcd and containerd in two versions.
// They are ordinary go.mod and go.sum files under another name, because a directory
// with a go.mod is a module of its own and could not be embedded. A build writes them to a scratch directory and runs `go build` there,
// so it works from any directory and nothing of it enters the project's own go.mod.
// CoreDNS is put together from the plugins that a cluster needs, by a main package
// that is embedded the same way.
//
// metrics-server, CoreDNS and Helm are built from kubernetes.mod, too, with the libraries
// of that Kubernetes in place of those that they require: they would compile most of them
// once more each, for a library is compiled once only where all that it imports has the
// same version. Kubernetes has exactly its own.
//
// Programs of one module are built by one go command, and two modules side by side
// (batch.go).
//
// The parts: [Tool] names a program and knows its module and package; [Cache]
// looks programs up and builds the missing ones; [Pin] writes the module files
// for other versions.
//
// # Where programs are kept
//
// In <user cache>/burstlet/<kubernetes>-<etcd>-<go>/, for example
// ~/.cache/burstlet/v1.36.3-v3.6.8-go1.26.8. The environment variable
// BURSTLET_CACHE replaces <user cache>/burstlet. A directory of another version
// is never reused and may be deleted at any time.
//
// # Another version
//
//	go run ./test/cmd/controlplane pin --kubernetes v1.36.4 --etcd v3.6.8 --metrics-server v0.9.0 \
//		--helm v4.3.1 --coredns v1.14.2 --containerd-1.7 v1.7.35 --containerd-2 v2.4.2 \
//		--other-kubernetes v1.34.4,v1.35.4,v1.37.2
//
// rewrites the module files: the staging modules that k8s.io/kubernetes
// replaces by directories of its own tree are replaced by their published
// versions (v1.36.4 -> v0.36.4), and `go mod tidy` does the rest. Take the etcd version
// that this Kubernetes release names in its own go.mod, and the CoreDNS version that
// its kubeadm installs.
//
// A flag that is left out leaves that version as it is.
//
// To build one more program, add a constant to tool.go and run pin again with
// the present versions.
package binaries
