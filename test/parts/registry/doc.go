// Package registry is an image registry for tests and the demo, in memory, with
// and without authentication. It is an [net/http.Handler]: ServeRegistry of a host
// (package remotehost) serves it inside the host, where containerd finds it by name.
package registry
