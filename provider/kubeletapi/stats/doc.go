// Package stats makes what the kubelet shows of resource use, its Summary API and
// its resource metrics, out of a backend's measurements. It is pure.
package stats
