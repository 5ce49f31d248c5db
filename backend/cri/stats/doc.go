// Package stats measures what this node's pods and their host use: a [Measurer] is what
// the backend lends for it.
//
// It owns what is remembered from one measurement to the next: the sandboxes of containers
// (pods.go), how fast counters grow (rates.go) and where images are kept. One measurement
// costs one call of the runtime and one operation of the host, whatever the number of pods
// (stats.go); pressure on the host is read without a look at any pod (signals.go). What
// else it needs to know, [Sources] lends.
//
// It may import packages convert, criconfig, host and transport, and the contract.
package stats
