// Package containerd is what hosts of the tests know of containerd: its
// configuration and that of its network, registries and images, and a client
// of its socket.
package containerd
