// Package soak holds a release to what docs/operations.md promises, for as long as it is
// told to (make soak): two processes with the chart's defaults stand for two nodes, one
// of containers on a host over SSH and one simulated, while pods come and go, ConfigMaps
// change, somebody scrapes, hostile clients flood the kubelet API and hold all streams that
// it has, and processes are killed.
//
// The run is cut into ten parts. The first begins with the death of the process that
// leads, the last has more of them; in between, the same process leads, and its memory,
// its leases and the times of its pods are judged (judge.go).
package soak
