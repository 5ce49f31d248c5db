// Package conformance runs the tests that the Kubernetes project holds nodes to
// (its e2e suite, label NodeConformance) against a cluster whose only node is
// burstlet on a host that it reaches over SSH, or on an ECS of the tests that runs
// containers.
//
//	make conformance FOCUS='Probing container' PROCS=4
//	make conformance BACKEND=ecs
//
// The parts: programs.go finds the suite and what it needs, built from the modules
// of package binaries; images.go makes the images that the tests name, from those
// programs and Debian's, so that nothing is pulled; remote.go and tasks.go start
// where pods run; cluster.go starts that, the control plane and burstlet, which
// registers without taints; node.go is the burstlet process; disturb.go kills it, or cuts
// its SSH connections, while tests run; run.go runs the suite in parallel; report.go reads its JUnit file and
// compares it with the tests that a kubelet passes here (testdata/baseline.txt), or
// that passed on tasks (testdata/baseline-ecs.txt).
//
// The remote is joined to the machine's network: the suite and the API server run on
// the machine and reach pods as another node would.
//
// Its test runs a fast subset.
package conformance
