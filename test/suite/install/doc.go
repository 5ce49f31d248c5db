// Package install holds the tests that install burstlet as its users do, with
// nothing simulated: `helm install` of charts/burstlet with the built image, into a
// cluster of package basecluster (a real kubelet, containerd, kube-proxy, CoreDNS
// and metrics-server), with nodes whose pods run on a host over SSH and on the ECS
// test server with real containers.
//
// What is installed is used (kubectl logs, exec, port-forward, top, an autoscaler),
// upgraded while it is used, and uninstalled, after which every object of the
// cluster and all that stood on the remote is compared with what was there before.
//
// There is one cluster, in which all of this happens at the same time, beside what
// shows that the cluster itself is whole: the tests of packages basecluster and
// kubelet. They wait more than they work: -parallel 6 lets them all begin at once.
package install
