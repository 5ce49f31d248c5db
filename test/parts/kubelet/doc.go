// Package kubelet runs a real kubelet on a host of package remotehost: what
// burstlet is measured beside, and what tells whether a test that fails on burstlet
// fails because of the machine.
//
// A [Kubelet] lives in the host's namespaces and uses the host's containerd over
// its socket, with the host's part of the cgroups as the whole. Its configuration
// is a kubelet's defaults but for what a machine without systemd and with cgroups
// of version 1 needs. Its own files stand on the host's disk.
//
// Hosts have no way out, so a veth pair leads from the host to the machine: the
// API server must listen on more than loopback (controlplane.Config.BindAddress
// 0.0.0.0). The kernel settings that a kubelet demands are the machine's; it is
// shown the values it wants and writes none.
//
// Its tests are among those of test/suite/install, which start one anyway.
package kubelet
