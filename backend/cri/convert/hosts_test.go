package convert

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

func TestHostsFile(t *testing.T) {
	pod := fakecri.Pod("u1")
	pod.Spec.Hostname, pod.Spec.Subdomain = "db-0", "db"
	pod.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"a", "b.example"}}}
	want := "10.0.0.7\tdb-0.db.ns.svc.cluster.local\tdb-0\nfd00::7\tdb-0.db.ns.svc.cluster.local\tdb-0\n" +
		"\n# Entries added by HostAliases.\n192.0.2.1\ta\tb.example\n"
	if got := ownNames([]string{"10.0.0.7", "fd00::7"}, pod, "cluster.local") +
		aliases(pod.Spec.HostAliases); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	pod.Spec.Subdomain = ""
	if got := ownNames([]string{"10.0.0.7"}, pod, "cluster.local") + aliases(nil); got != "10.0.0.7\tdb-0\n" {
		t.Errorf("%q", got)
	}
	own := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{MountPath: "/etc/hosts"}}}
	if ManagesHosts(own) || !ManagesHosts(&corev1.Container{}) {
		t.Error("who brings an /etc/hosts keeps it, and only who does")
	}
}
