// Package health is the health port of a process: /healthz, /readyz with the states of its nodes,
// and /metrics of the process and of every node that it works as. Those who run nodes tell it how
// they are; it asks nobody, and bounds what its callers may have under way.
package health
