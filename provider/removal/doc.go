// Package removal takes nodes of burstlet out of a cluster, for good, so that
// nothing of them is left: no pod, no task that is billed, no Node, no lease.
//
// # The way
//
// [Run] goes through these steps, for all nodes at once. Each says in a line what
// it did, does nothing where there is nothing (left) to do, and takes what it needs
// to know from the API and the remote alone. So a removal that was killed at any
// point is gone on with by starting it again.
//
//  1. Every node is looked at. One that is not burstlet's ends it all, before
//     anything was changed.
//  2. The nodes are cordoned.
//  3. Beside burstlet processes that run, their pods are made to leave: those
//     processes end them, as ever. DaemonSets' pods stay for now: their controller
//     does not mind a cordon and would only make them again.
//  4. The processes are ended (a Deployment is scaled to zero) or waited for.
//  5. From here on this process has the node ([Takeover]): it holds the lease of the
//     leader, and an engine of its own ends pods, with hooks, grace and a last
//     status, but starts none. What is left leaves, DaemonSets' pods last.
//  6. The Node is deleted, so that no controller and no scheduler brings more pods;
//     then what came in between.
//  7. The remote is looked at until it shows nothing of this node twice, and what it
//     keeps beside pods is deleted.
//  8. Leases and certificate requests are deleted, and after a while one looks
//     whether somebody made them again. The Lease of an election goes when all its
//     nodes are through step 7, since this process holds it until then, and stays
//     where other nodes have it too that are not removed.
//
// # Evict, then delete
//
// Pods are evicted, as by kubectl drain, so that PodDisruptionBudgets hold while
// their replacements start elsewhere. But a budget of a single replica, or one whose
// replacements find no room, never lets go, and whoever uninstalls wants an end:
// after Config.ForceAfter a pod is deleted as kubectl delete does it, which no budget
// stops. Both give the pod its own grace. DaemonSets' pods are deleted at once: no
// other node can take their place.
package removal
