// Package controlplane runs a real Kubernetes control plane on this machine:
// etcd, kube-apiserver, kube-controller-manager and kube-scheduler as child
// processes, with a PKI of their own, the Node and RBAC authorizers and the
// NodeRestriction admission plugin, so that a node is held to what a real
// cluster allows it.
//
// Tests use package cptest, which skips when the programs are not built:
//
//	var plane cptest.Shared
//
//	func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		cp := plane.Get(t)
//		...
//	}
//
// People use the command:
//
//	go run ./test/cmd/controlplane up
//
// The parts: binaries.go finds the programs (package test/parts/binaries builds
// them and says how to change their versions); pki.go makes the certificate
// authorities and everything they sign; components.go knows each program's
// flags; etcd.go has those of etcd's members, kills one, and puts back their data;
// process.go owns a child process; start.go brings the parts up in order
// and waits until each is ready; controlplane.go is what callers hold.
//
// # What listens where
//
// etcd listens on unix sockets in the state directory, which only its owner may
// enter; several members reach each other by sockets there, too. The other
// components listen on 127.0.0.1, on ports of package test/kit/ports, which keeps
// them until Stop, so that a stopped API server finds its port free again.
// Config.BindAddress makes the API server listen elsewhere too, for nodes and
// pods in network namespaces.
//
// # What is left behind
//
// Nothing. Stop ends the processes in reverse order and removes the state
// directory when Start made it. When the owning process is killed the kernel
// kills the children with it, and the next Start removes the state directory.
package controlplane
