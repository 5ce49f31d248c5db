package kubeletapi

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// verbs are the API verbs of HTTP methods, as the kubelet has them.
var verbs = map[string]string{
	http.MethodPost: "create", http.MethodGet: "get", http.MethodPut: "update",
	http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// fineGrained are paths with a subresource of their own beside nodes/proxy
// (Kubernetes' KubeletFineGrainedAuthz): either right is enough.
var fineGrained = []struct{ path, subresource string }{
	{"/pods", "pods"}, {"/runningpods", "pods"}, {"/healthz", "healthz"}, {"/configz", "configz"},
}

// exclusive are paths that have their own subresource and not nodes/proxy.
var exclusive = []struct{ path, subresource string }{
	{"/stats", "stats"},
	{"/metrics", "metrics"},
	{"/logs", "log"},
	{"/checkpoint", "checkpoint"},
	{"/statusz", "statusz"},
	{"/flagz", "configz"},
}

// under is true for a path and for what lies below it.
func under(path, root string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (rest == "" || rest[0] == '/')
}

// subresources are those of the Node that a path needs, in the order in which
// they are asked for; one of them suffices.
func subresources(path string) []string {
	for _, e := range exclusive {
		if under(path, e.path) {
			return []string{e.subresource}
		}
	}
	for _, f := range fineGrained {
		if under(path, f.path) {
			return []string{f.subresource, "proxy"}
		}
	}
	return []string{"proxy"}
}

// attributes are what is asked of the authorizer for a request.
func attributes(node string, u user.Info, r *http.Request) []authorizer.AttributesRecord {
	subs := subresources(r.URL.Path)
	attrs := make([]authorizer.AttributesRecord, len(subs))
	for i, sub := range subs {
		attrs[i] = authorizer.AttributesRecord{
			User: u, Verb: verbs[r.Method], APIVersion: "v1", Resource: "nodes",
			Subresource: sub, Name: node, ResourceRequest: true, Path: r.URL.Path,
		}
	}
	return attrs
}
