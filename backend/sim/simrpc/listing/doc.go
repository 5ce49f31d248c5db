// Package listing encodes listings of pods and volumes, an order of magnitude cheaper than JSON:
// a remote of ten thousand pods lists them every second. It knows the contract's facts and nothing
// of the connection.
package listing
