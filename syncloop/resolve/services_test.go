package resolve

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func service(namespace, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: ip, Ports: ports},
	}
}

func lines(e *environment) []string {
	var out []string
	for _, v := range e.list() {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

func TestVariablesOfAService(t *testing.T) {
	for name, tc := range map[string]struct {
		service *corev1.Service
		want    []string
	}{
		"one unnamed port": {service("ns", "web", "10.0.0.2", corev1.ServicePort{Port: 80}), []string{
			"WEB_SERVICE_HOST=10.0.0.2", "WEB_SERVICE_PORT=80", "WEB_PORT=tcp://10.0.0.2:80",
			"WEB_PORT_80_TCP=tcp://10.0.0.2:80", "WEB_PORT_80_TCP_PROTO=tcp", "WEB_PORT_80_TCP_PORT=80",
			"WEB_PORT_80_TCP_ADDR=10.0.0.2",
		}},
		"named ports, IPv6": {
			service(
				"ns", "my-dns", "fd00::a", corev1.ServicePort{Name: "dns-udp", Port: 53, Protocol: "UDP"},
				corev1.ServicePort{Name: "m", Port: 9, Protocol: "SCTP"},
			),
			[]string{
				"MY_DNS_SERVICE_HOST=fd00::a", "MY_DNS_SERVICE_PORT=53", "MY_DNS_SERVICE_PORT_DNS_UDP=53",
				"MY_DNS_SERVICE_PORT_M=9",
				"MY_DNS_PORT=udp://[fd00::a]:53",
				"MY_DNS_PORT_53_UDP=udp://[fd00::a]:53", "MY_DNS_PORT_53_UDP_PROTO=udp", "MY_DNS_PORT_53_UDP_PORT=53",
				"MY_DNS_PORT_53_UDP_ADDR=fd00::a",
				"MY_DNS_PORT_9_SCTP=sctp://[fd00::a]:9", "MY_DNS_PORT_9_SCTP_PROTO=sctp", "MY_DNS_PORT_9_SCTP_PORT=9",
				"MY_DNS_PORT_9_SCTP_ADDR=fd00::a",
			},
		},
		"no port": {service("ns", "x", "10.0.0.3"), []string{"X_SERVICE_HOST=10.0.0.3"}},
	} {
		t.Run(name, func(t *testing.T) {
			vars := newEnvironment()
			describe(vars, tc.service)
			if diff := cmp.Diff(tc.want, lines(vars)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhichServicesAPodSees(t *testing.T) {
	all := []*corev1.Service{
		service("default", "kubernetes", "10.0.0.1", corev1.ServicePort{Name: "https", Port: 443}),
		service("default", "other", "10.0.0.2"), service("ns", "web", "10.0.0.3"), service("ns", "api", "10.0.0.4"),
		service("ns", "headless", "None"), service("ns", "external", ""), service("else", "db", "10.0.0.5"),
	}
	own := append(all, service("ns", "kubernetes", "10.0.0.6"))
	reachable := netip.MustParseAddrPort("198.51.100.7:6443")
	for name, tc := range map[string]struct {
		namespace string
		links     *bool
		services  []*corev1.Service
		api       netip.AddrPort
		want      []string
	}{
		"its namespace's and the API server's": {
			"ns", nil, all, netip.AddrPort{}, []string{"api 10.0.0.4", "kubernetes 10.0.0.1", "web 10.0.0.3"},
		},
		"in default": {
			"default", ptr(true), all, netip.AddrPort{}, []string{"kubernetes 10.0.0.1", "other 10.0.0.2"},
		},
		"without links only the API server's": {
			"ns", ptr(false), all, netip.AddrPort{}, []string{"kubernetes 10.0.0.1"},
		},
		"its own service of that name goes first": {
			"ns", nil, own, reachable, []string{"api 10.0.0.4", "kubernetes 10.0.0.6", "web 10.0.0.3"},
		},
		"unless it sees none": {
			"ns", ptr(false), own, netip.AddrPort{}, []string{"kubernetes 10.0.0.1"},
		},
		"behaviour 19: the address that pods can reach": {
			"ns", ptr(false), all, reachable, []string{"kubernetes 198.51.100.7"},
		},
		"in default too": {
			"default", nil, all, reachable, []string{"kubernetes 198.51.100.7", "other 10.0.0.2"},
		},
		"even where the Service is missing": {"ns", nil, nil, reachable, []string{"kubernetes 198.51.100.7"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod(corev1.Container{})
			pod.Namespace, pod.Spec.EnableServiceLinks = tc.namespace, tc.links
			var got []string
			for _, s := range visibleServices(pod, tc.services, Node{APIServer: tc.api}) {
				got = append(got, s.Name+" "+s.Spec.ClusterIP)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheAPIServersAddressReplacesAllOfItsVariables(t *testing.T) {
	pod := testPod(corev1.Container{Env: []corev1.EnvVar{
		{Name: "KUBERNETES_SERVICE_PORT_HTTPS", Value: "mine"}, {Name: "URL", Value: "https://$(KUBERNETES_SERVICE_HOST)"},
	}})
	o := Objects{ServicesSynced: true, Services: []*corev1.Service{
		service("default", "kubernetes", "10.0.0.1", corev1.ServicePort{Name: "https", Port: 443}),
	}}
	for api, want := range map[string][]string{
		"198.51.100.7:6443": {
			"KUBERNETES_SERVICE_PORT_HTTPS=mine", "URL=https://198.51.100.7",
			"KUBERNETES_SERVICE_HOST=198.51.100.7", "KUBERNETES_SERVICE_PORT=6443", "KUBERNETES_PORT=tcp://198.51.100.7:6443",
			"KUBERNETES_PORT_6443_TCP=tcp://198.51.100.7:6443", "KUBERNETES_PORT_6443_TCP_PROTO=tcp",
			"KUBERNETES_PORT_6443_TCP_PORT=6443", "KUBERNETES_PORT_6443_TCP_ADDR=198.51.100.7",
		},
		"[2001:db8::7]:443": {
			"KUBERNETES_SERVICE_PORT_HTTPS=mine", "URL=https://2001:db8::7",
			"KUBERNETES_SERVICE_HOST=2001:db8::7", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_PORT=tcp://[2001:db8::7]:443",
			"KUBERNETES_PORT_443_TCP=tcp://[2001:db8::7]:443", "KUBERNETES_PORT_443_TCP_PROTO=tcp",
			"KUBERNETES_PORT_443_TCP_PORT=443", "KUBERNETES_PORT_443_TCP_ADDR=2001:db8::7",
		},
	} {
		got, _, err := Resolve(pod, &pod.Spec.Containers[0], o, Node{APIServer: netip.MustParseAddrPort(api)}, Addresses{})
		if err != nil {
			t.Fatal(err)
		}
		vars := newEnvironment()
		for _, v := range got.Env {
			vars.share(v.Name, v.Value)
		}
		if diff := cmp.Diff(want, lines(vars)); diff != "" {
			t.Error(diff)
		}
	}
}
