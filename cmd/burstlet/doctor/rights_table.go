package doctor

import (
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// API groups.
const (
	groupCore           = ""
	groupNode           = "node.k8s.io"
	groupCertificates   = "certificates.k8s.io"
	groupAuthentication = "authentication.k8s.io"
	groupAuthorization  = "authorization.k8s.io"
	groupCoordination   = "coordination.k8s.io"

	leaseNamespace = "kube-node-lease"
)

// scope is of which objects the Node authorizer grants a right to a node's own
// credential, and so what is to be asked for.
type scope int

const (
	// anyObject: asked without a name.
	anyObject scope = iota
	// ownObject: of the node's name.
	ownObject
	// ownPods: selected by spec.nodeName.
	ownPods
	// referenced: by the node's pods; nothing can be asked before there are any.
	referenced
	// unasked: the authorizer grants it or not by feature gates of the API server, and
	// few pods need it.
	unasked
)

// right is a rule of what a burstlet process does in the API.
type right struct {
	group     string
	resources []string
	verbs     []string
	// namespace is the only one in which it is needed; empty: all.
	namespace string
	scope     scope
	// why says what does not work without it.
	why string
	// optional rights are needed by some pods alone.
	optional bool
	// needed says by the configuration whether it is; nil: always.
	needed func(config.Configuration) bool
}

func servesAPI(c config.Configuration) bool { return c.KubeletAPI.Served() }

func requestsServing(c config.Configuration) bool { return c.KubeletAPI.ServerTLSBootstrap }

func hasStaticPods(c config.Configuration) bool {
	return c.Pods.StaticPodPath != "" || c.Pods.StaticPodURL != ""
}

func hasCredentialProviders(c config.Configuration) bool {
	return c.Images.CredentialProviderConfigFile != ""
}

// nodeRights is all that a burstlet process does in the API as its node: what
// deploy/rbac/constrained-impersonation.yaml grants, rule by rule, in its order.
func nodeRights() []right {
	return []right{
		{
			group: groupCore, resources: []string{"nodes"}, verbs: []string{"get", "list", "watch", "create", "patch"},
			scope: ownObject,
			why:   "the node is not registered",
		},
		{
			group: groupCore, resources: []string{"nodes/status"}, verbs: []string{"patch"}, scope: ownObject,
			why: "the node does not become ready",
		},
		{
			group: groupCore, resources: []string{"pods"}, verbs: []string{"get", "list", "watch", "delete"}, scope: ownPods,
			why: "pods are not seen, or never go away",
		},
		{
			group: groupCore, resources: []string{"pods"}, verbs: []string{"create"},
			why: "static pods are not seen in the API", needed: hasStaticPods,
		},
		{group: groupCore, resources: []string{"pods/status"}, verbs: []string{"patch"}, why: "pods stay Pending"},
		{
			group: groupCore, resources: []string{"events"}, verbs: []string{"create", "patch"},
			why: "kubectl describe shows no events", optional: true,
		},
		{
			group: groupCore, resources: []string{"secrets", "configmaps"}, verbs: []string{"get", "list", "watch"},
			scope: referenced,
			why:   "pods that use one do not start",
		},
		{
			group: groupCore, resources: []string{"services"}, verbs: []string{"get", "list", "watch"},
			why: "no pod starts: their environment tells of Services",
		},
		{
			group: groupCore, resources: []string{"serviceaccounts/token"}, verbs: []string{"create"}, scope: referenced,
			why: "pods with a token do not start",
		},
		{
			group: groupCore, resources: []string{"serviceaccounts"}, verbs: []string{"get"}, scope: referenced,
			why: "credential provider plugins with tokenAttributes are not asked", optional: true,
			needed: hasCredentialProviders,
		},
		{
			group: groupCore, resources: []string{"persistentvolumeclaims", "persistentvolumes"}, verbs: []string{"get"},
			scope: referenced,
			why:   "pods with a claim do not start",
		},
		{
			group: groupNode, resources: []string{"runtimeclasses"}, verbs: []string{"get"},
			why: "pods with a runtimeClassName do not start", optional: true,
		},
		{
			group: groupCertificates, resources: []string{"clustertrustbundles"}, verbs: []string{"list"}, scope: unasked,
			why: "pods with a clusterTrustBundle do not start", optional: true,
		},
		{
			group: groupCertificates, resources: []string{"certificatesigningrequests"},
			verbs: []string{"create", "get", "list", "watch"},
			why:   "no serving certificate is requested", needed: requestsServing,
		},
		{
			group: groupAuthentication, resources: []string{"tokenreviews"}, verbs: []string{"create"},
			why: "the kubelet API accepts no token", needed: servesAPI,
		},
		{
			group: groupAuthorization, resources: []string{"subjectaccessreviews"}, verbs: []string{"create"},
			why: "kubectl logs and exec are refused", needed: servesAPI,
		},
		{
			group: groupCoordination, resources: []string{"leases"}, verbs: []string{"get", "create", "update"},
			namespace: leaseNamespace, scope: ownObject,
			why: "the node is taken for dead",
		},
	}
}

// electionRight is that of the credential that the leader election uses.
func electionRight(namespace string) right {
	return right{
		group: groupCoordination, resources: []string{"leases"}, verbs: []string{"get", "create", "update"},
		namespace: namespace, scope: ownObject,
		why: "no process leads, and the node does not run",
	}
}

// bootstrapRights are those of the credential that requests the node's own
// (deploy/rbac/bootstrap.yaml: system:node-bootstrapper).
func bootstrapRights() []right {
	return []right{
		{
			group: groupCertificates, resources: []string{"certificatesigningrequests"},
			verbs: []string{"create", "get", "list", "watch"},
			why:   "the node's credential is not requested",
		},
	}
}
