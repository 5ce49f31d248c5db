// Package basecluster makes a whole small cluster on this machine, of the programs
// that clusters are made of: the control plane of package controlplane, and one
// node, a host of package remotehost with containerd, a kubelet, kube-proxy and
// CoreDNS. Pods of the node reach Services, names of Services, each other and the
// API server, with nothing in between that a test answers for.
//
// The node's wire ends in the machine's network (remotehost.Host.Join): processes
// of the machine, the API server among them, reach pods by their addresses, and
// pods reach what listens at [Cluster.Machine]. Addresses of Services are known to
// the node alone, so the API server asks the endpoints of aggregated APIs.
//
// No registry is reached: what pods run is imported, see [Cluster.Import].
//
// Its tests are among those of test/suite/install, which start such a cluster anyway.
package basecluster
