// Package bench measures what burstlet costs a cluster and a machine: the rows of
// docs/benchmarks.md, each beside its bar and, where there is one, beside another
// program in the same run. It has benchmarks only:
//
//	go test -run '^$' -bench . ./test/bench
//
// A bar that is missed fails nothing: the number and its ratio to the bar are
// reported as metrics and in a table at the end. What fails is a benchmark that
// could not measure. Without the control plane's programs it skips and says so.
//
// The real parts: a control plane of its own (test/parts/controlplane) with an audit log
// that counts writes, burstlet and "burstlet sim" as processes, kwok, built from
// the module that kwok.mod pins, and a real kubelet (test/parts/kubelet) on a host of the
// same kind as the one that burstlet reaches over SSH. Pods are bound to their node
// when they are created, so that no scheduler is measured.
//
// With BURSTLET_BENCH_PROFILE=<directory> burstlet is built with
// testdata/profiling.go.txt overlaid, and CPU and heap profiles of each phase are
// written there, and the logs of all programs.
package bench
