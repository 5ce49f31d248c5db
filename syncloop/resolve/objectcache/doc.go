// Package objectcache fills resolve.Objects: it reads from the API server what
// pods refer to, with the rights and in the manner of a kubelet, so that the
// Node authorizer is enough.
//
//	Set(pod) ── references ──> ConfigMaps, Secrets   one watch each, shared by all pods (follow.go)
//	                           Services              one informer, from the first pod on (services.go)
//	                           tokens                TokenRequest per pod, renewed in time (tokens.go)
//	                           claims                GET of PVC and PV until bound (claims.go)
//	                           trust bundles         LIST, once a minute (bundles.go)
//	                                    │ what was read changed
//	Objects(pod) <── a snapshot ────────┴──> Changed(uid)
//
// [Cache.Set], [Cache.Forget] and [Cache.Objects] only note and look; [Cache.Run]
// does the work. A watch has a goroutine of its own; everything that is asked
// now and then is a task in one queue (queue.go) and costs no goroutine while it
// waits. Nothing is polled that can be watched.
//
// The Node authorizer learns of a pod a moment after it was bound. So a refusal
// is asked again after 10, 20, 40 … ms and becomes an error that pods see only
// after 5 s; then it is asked again ever more seldom, once a minute at last
// (retry.go). A list that holds no such object is no refusal: the object is
// missing, which is said at once, and the watch tells when it is made.
//
// The behaviour follows the kubelet's managers of these objects
// (pkg/kubelet/util/manager/watch_based_manager.go, pkg/kubelet/token,
// pkg/kubelet/clustertrustbundle, pkg/kubelet/volumemanager/populator;
// Kubernetes 1.36). Where it differs the comment at that place says why.
package objectcache
