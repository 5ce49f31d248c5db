package resolve

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/backend"
)

// masterService is the API server's, in the default namespace. Every
// container has its variables.
const masterService = "kubernetes"

// serviceVariables are those of the services that the pod sees, in the names'
// order: the API server's, and unless enableServiceLinks is false those of its
// namespace. Containers wait for them, for a variable that is missing at the
// start is missing for good; static pods do not, for there may be no API.
func serviceVariables(pod *corev1.Pod, o Objects, node Node) (*environment, error) {
	if !o.ServicesSynced && !backend.IsStatic(pod) {
		return nil, fmt.Errorf("services have not yet been read at least once, cannot construct envvars: %w", ErrWaiting)
	}
	vars := newEnvironment()
	for _, service := range visibleServices(pod, o.Services, node) {
		describe(vars, service)
	}
	return vars, nil
}

// visibleServices are the services with an address that the pod sees, sorted by
// name. One of the pod's own namespace goes before the API server's of that name.
func visibleServices(pod *corev1.Pod, all []*corev1.Service, node Node) []*corev1.Service {
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	seen := map[string]*corev1.Service{}
	if node.APIServer.IsValid() {
		seen[masterService] = apiServer(node)
	}
	for _, s := range all {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
			continue
		}
		switch master := s.Namespace == metav1.NamespaceDefault && s.Name == masterService; {
		case master:
			if seen[masterService] == nil {
				seen[masterService] = s
			}
		case links && s.Namespace == pod.Namespace:
			seen[s.Name] = s
		}
	}
	out := make([]*corev1.Service, 0, len(seen))
	for _, s := range seen {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// apiServer stands in for the Service whose address pods of this node cannot
// reach: they have no kube-proxy.
func apiServer(node Node) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: masterService},
		Spec: corev1.ServiceSpec{
			ClusterIP: node.APIServer.Addr().Unmap().String(),
			Ports:     []corev1.ServicePort{{Name: "https", Port: int32(node.APIServer.Port()), Protocol: corev1.ProtocolTCP}},
		},
	}
}

// describe sets the variables of one service: its own, and those of Docker's
// container links (kubelet: envvars.FromServices).
func describe(vars *environment, s *corev1.Service) {
	prefix := variableName(s.Name)
	vars.share(prefix+"_SERVICE_HOST", s.Spec.ClusterIP)
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		number := strconv.Itoa(int(port.Port))
		if i == 0 {
			vars.share(prefix+"_SERVICE_PORT", number)
		}
		if port.Name != "" {
			vars.share(prefix+"_SERVICE_PORT_"+variableName(port.Name), number)
		}
	}
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		protocol := cmp.Or(port.Protocol, corev1.ProtocolTCP)
		scheme := strings.ToLower(string(protocol))
		number := strconv.Itoa(int(port.Port))
		url := scheme + "://" + net.JoinHostPort(s.Spec.ClusterIP, number)
		if i == 0 {
			vars.share(prefix+"_PORT", url)
		}
		link := prefix + "_PORT_" + number + "_" + strings.ToUpper(string(protocol))
		vars.share(link, url)
		vars.share(link+"_PROTO", scheme)
		vars.share(link+"_PORT", number)
		vars.share(link+"_ADDR", s.Spec.ClusterIP)
	}
}

func variableName(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }
