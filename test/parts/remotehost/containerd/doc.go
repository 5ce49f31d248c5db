// Package containerd is what every host of the tests knows of containerd: its
// configuration and that of its network, registries and images, and a client
// of its socket.
package containerd
