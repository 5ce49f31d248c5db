package dnsconfig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestOf(t *testing.T) {
	const host = "# c\nnameserver 1.1.1.1\nnameserver 2.2.2.2\nsearch old.example\nsearch corp.example. lan .\noptions ndots:2 rotate\noptions ndots:3\n"
	known := Cluster{Servers: []string{"10.0.0.10"}, Domain: "cluster.local"}
	cluster := &runtimeapi.DNSConfig{
		Servers:  []string{"10.0.0.10"},
		Searches: []string{"ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example", "lan"},
		Options:  []string{"ndots:5"},
	}
	fromHost := &runtimeapi.DNSConfig{
		Servers: []string{"1.1.1.1", "2.2.2.2"}, Searches: []string{"corp.example", "lan"},
		Options: []string{"ndots:3", "rotate"},
	}
	for _, tt := range []struct {
		name  string
		known Cluster
		spec  corev1.PodSpec
		want  *runtimeapi.DNSConfig
	}{
		{"default of the API", known, corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst}, cluster},
		{"unset", known, corev1.PodSpec{}, cluster},
		{"host network", known, corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst, HostNetwork: true}, fromHost},
		{
			"host network with cluster", known,
			corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirstWithHostNet, HostNetwork: true},
			cluster,
		},
		{"Default", known, corev1.PodSpec{DNSPolicy: corev1.DNSDefault}, fromHost},
		{"no cluster DNS", Cluster{}, corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst}, fromHost},
		{"None", known, corev1.PodSpec{DNSPolicy: corev1.DNSNone, DNSConfig: &corev1.PodDNSConfig{
			Nameservers: []string{"9.9.9.9", "9.9.9.9"}, Searches: []string{"x"},
			Options: []corev1.PodDNSConfigOption{{Name: "edns0"}},
		}}, &runtimeapi.DNSConfig{Servers: []string{"9.9.9.9"}, Searches: []string{"x"}, Options: []string{"edns0"}}},
		{"merged, cut at three servers", known, corev1.PodSpec{DNSPolicy: corev1.DNSDefault, DNSConfig: &corev1.PodDNSConfig{
			Nameservers: []string{"3.3.3.3", "4.4.4.4"}, Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("1")}},
		}}, &runtimeapi.DNSConfig{
			Servers: []string{"1.1.1.1", "2.2.2.2", "3.3.3.3"}, Searches: []string{"corp.example", "lan"},
			Options: []string{"ndots:1", "rotate"},
		}},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: tt.spec}
		got := Of(pod, tt.known, []byte(host))
		if diff := cmp.Diff(tt.want.String(), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
