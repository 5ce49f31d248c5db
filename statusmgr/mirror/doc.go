// Package mirror shows static pods in the API: each has a mirror pod there, a copy that
// its status is written to and that does nothing else (kubelet: pod/mirror_client.go).
//
//	static pod without a mirror pod       it is made, owned by the Node
//	mirror pod of another hash, or        deleted with grace 0; the next look makes
//	one that is being deleted             another
//	mirror pod without a static pod       deleted with grace 0
//	the API server calls it invalid       the static pod ends
//	the name is another pod's             told; neither is touched
//
// [Manager] keeps it so; [Status] leads the statuses of static pods to their mirror pods.
package mirror
