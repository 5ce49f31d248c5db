package cri

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

func resources(requests, limits string) corev1.ResourceRequirements {
	list := func(text string) corev1.ResourceList {
		if text == "" {
			return nil
		}
		cpu, memory, _ := strings.Cut(text, " ")
		out := corev1.ResourceList{}
		if cpu != "-" {
			out[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "-" {
			out[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

func TestResourcesAndQoS(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		requests, limits string
		qos              corev1.PodQOSClass
		shares, quota    int64
		memory, oom      int64
		cgroup           string
	}{
		{"", "", corev1.PodQOSBestEffort, 2, 0, 0, 1000, "/top/besteffort/podu1"},
		{"500m 1Gi", "500m 1Gi", corev1.PodQOSGuaranteed, 512, 50000, gib, -997, "/top/podu1"},
		{"", "2 1Gi", corev1.PodQOSGuaranteed, 2048, 200000, gib, -997, "/top/podu1"},
		{"1 1Gi", "", corev1.PodQOSBurstable, 1024, 0, 0, 900, "/top/burstable/podu1"},
		{"1 -", "2 1Gi", corev1.PodQOSBurstable, 1024, 200000, gib, 999, "/top/burstable/podu1"},
		{"- 100Gi", "", corev1.PodQOSBurstable, 2, 0, 0, 3, "/top/burstable/podu1"},
		{"", "1m -", corev1.PodQOSBurstable, 2, 1000, 0, 999, "/top/burstable/podu1"},
		{"1000 -", "", corev1.PodQOSBurstable, 262144, 0, 0, 999, "/top/burstable/podu1"},
	} {
		pod := testPod("u1")
		pod.Spec.Containers[0].Resources = resources(tt.requests, tt.limits)
		got := linuxResources(pod.Spec.Containers[0].Resources)
		if got.CpuShares != tt.shares || got.CpuQuota != tt.quota || got.CpuPeriod != 100000 || got.MemoryLimitInBytes != tt.memory {
			t.Errorf("%q %q: %v", tt.requests, tt.limits, got)
		}
		if qos := podQoS(pod); qos != tt.qos {
			t.Errorf("%q %q: %s, want %s", tt.requests, tt.limits, qos, tt.qos)
		}
		if score := oomScore(pod, &pod.Spec.Containers[0], 10*gib); score != tt.oom {
			t.Errorf("%q %q: oom score %d, want %d", tt.requests, tt.limits, score, tt.oom)
		}
		if parent := cgroupParent(CgroupDriverCgroupfs, "top", pod); parent != tt.cgroup {
			t.Errorf("%q %q: cgroup %s, want %s", tt.requests, tt.limits, parent, tt.cgroup)
		}
	}
	pod := testPod("a-b")
	if got := cgroupParent(CgroupDriverSystemd, "top-most", pod); got != "top_most-besteffort-poda_b.slice" {
		t.Errorf("slice %s", got)
	}
	pod.Spec.PriorityClassName = nodeCriticalClass
	if score := oomScore(pod, &pod.Spec.Containers[0], gib); score != -997 {
		t.Errorf("node critical: %d", score)
	}
}

func TestSandboxResources(t *testing.T) {
	pod := testPod("u1")
	pod.Spec.Containers = []corev1.Container{{Resources: resources("1 1Gi", "2 2Gi")}, {Resources: resources("500m -", "1 -")}}
	pod.Spec.InitContainers = []corev1.Container{{Resources: resources("- 3Gi", "5 -")}}
	got := podResources(pod)
	want := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("3Gi")},
		Limits:   corev1.ResourceList{"cpu": resource.MustParse("5")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSystemdCgroup(t *testing.T) {
	for config, want := range map[string]bool{
		`{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":true}}}}}`:                        true,
		`{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{}},"other":{"options":{"SystemdCgroup":true}}}}}`: false,
		`{"systemdCgroup":true}`: true, "": false, "not json": false,
	} {
		if got := systemdCgroup(config); got != want {
			t.Errorf("%s: %v", config, got)
		}
	}
}

func TestHostname(t *testing.T) {
	long := strings.Repeat("a", 62) + "-b"
	for want, set := range map[string]func(*corev1.Pod){
		"name-u1":               func(*corev1.Pod) {},
		"given":                 func(p *corev1.Pod) { p.Spec.Hostname = "given" },
		"over.ride":             func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.HostnameOverride = "given", new("over.ride") },
		"":                      func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		strings.Repeat("a", 62): func(p *corev1.Pod) { p.Name = long },
	} {
		pod := testPod("u1")
		set(pod)
		if got, err := hostname(pod, "cluster.local"); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

func TestFullName(t *testing.T) {
	pod := testPod("u1")
	pod.Spec.Hostname, pod.Spec.Subdomain = "db-0", "db"
	if name, err := hostname(pod, "cluster.local."); name != "db-0" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	pod.Spec.SetHostnameAsFQDN = new(true)
	if name, err := hostname(pod, "cluster.local."); name != "db-0.db.ns.svc.cluster.local" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	pod.Spec.Subdomain = strings.Repeat("d", 60)
	_, err := hostname(pod, "cluster.local")
	wantClass(t, err, backend.ErrInvalid)
	pod.Spec.HostnameOverride = new("own")
	if name, err := hostname(pod, "cluster.local"); name != "own" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
}

func TestHostsFile(t *testing.T) {
	pod := testPod("u1")
	pod.Spec.Hostname, pod.Spec.Subdomain = "db-0", "db"
	pod.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"a", "b.example"}}}
	want := "10.0.0.7\tdb-0.db.ns.svc.cluster.local\tdb-0\nfd00::7\tdb-0.db.ns.svc.cluster.local\tdb-0\n" +
		"\n# Entries added by HostAliases.\n192.0.2.1\ta\tb.example\n"
	if got := ownNames([]string{"10.0.0.7", "fd00::7"}, pod, "cluster.local") + aliases(pod.Spec.HostAliases); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	pod.Spec.Subdomain = ""
	if got := ownNames([]string{"10.0.0.7"}, pod, "cluster.local") + aliases(nil); got != "10.0.0.7\tdb-0\n" {
		t.Errorf("%q", got)
	}
	own := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{MountPath: "/etc/hosts"}}}
	if managesHosts(own) || !managesHosts(&corev1.Container{}) {
		t.Error("who brings an /etc/hosts keeps it, and only who does")
	}
}

// configsOf runs a pod and returns what reached the runtime.
func configsOf(t *testing.T, pod *corev1.Pod, c corev1.Container, set ...func(*fakecri.Server)) (*runtimeapi.PodSandboxConfig, *runtimeapi.ContainerConfig, error) {
	t.Helper()
	w := newWorld(t, set...)
	r, _ := w.connect(t)
	must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(pod, 2)))
	spec := backend.ContainerSpec{Pod: pod, Container: c, Attempt: 4, Hash: "h", Round: 3, ImageID: "sha256:" + testImage}
	if err := (containers{r}).Start(t.Context(), launchSpec(pod, 2).Ref(), spec); err != nil {
		return nil, nil, err
	}
	_, config := w.fake.Container(c.Name)
	for _, sandbox := range w.fake.Sandboxes() {
		return sandbox, config, nil
	}
	return nil, nil, nil
}

func TestConfigs(t *testing.T) {
	pod := testPod("u1")
	pod.Annotations = map[string]string{"note": "x"}
	pod.Spec.HostPID = true
	pod.Spec.TerminationGracePeriodSeconds = new(int64(7))
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1001)), FSGroup: new(int64(1002)), SupplementalGroups: []int64{1003},
		Sysctls:        []corev1.Sysctl{{Name: "net.ipv4.ip_forward", Value: "1"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	c := corev1.Container{
		Name: "main", Image: testImage, Command: []string{"a"}, Args: []string{"b"}, WorkingDir: "/w", Stdin: true, StdinOnce: true, TTY: true,
		Env: []corev1.EnvVar{{Name: "K", Value: "V"}}, TerminationMessagePath: "/dev/termination-log",
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: new(int64(5)), ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CAP_NET_ADMIN"}, Drop: []corev1.Capability{"ALL"}},
		},
	}
	pod.Spec.Containers[0] = *c.DeepCopy()
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 53, HostPort: 5353, Protocol: corev1.ProtocolUDP, HostIP: "127.0.0.1"}}
	box, config, err := configsOf(t, pod, c)
	must(t, err)
	for name, pair := range map[string][2]any{
		"metadata":     {box.Metadata.String(), (&runtimeapi.PodSandboxMetadata{Name: "name-u1", Namespace: "ns", Uid: "u1", Attempt: 2}).String()},
		"labels":       {box.Labels, map[string]string{"app": "x", labelPodName: "name-u1", labelPodNamespace: "ns", labelPodUID: "u1", labelNode: "node-a"}},
		"annotations":  {box.Annotations, map[string]string{"note": "x", annotationCgroup: "/burstlet/besteffort/podu1"}},
		"cgroup":       {box.Linux.CgroupParent, "/burstlet/besteffort/podu1"},
		"ports":        {fmt.Sprint(box.PortMappings), fmt.Sprint([]*runtimeapi.PortMapping{{Protocol: runtimeapi.Protocol_UDP, ContainerPort: 53, HostPort: 5353, HostIp: "127.0.0.1"}})},
		"sysctls":      {box.Linux.Sysctls, map[string]string{"net.ipv4.ip_forward": "1"}},
		"sandbox user": {box.Linux.SecurityContext.RunAsUser.GetValue(), int64(1000)},
		"container labels": {config.Labels, map[string]string{
			labelPodName: "name-u1", labelPodNamespace: "ns", labelPodUID: "u1", labelContainerName: "main", labelNode: "node-a",
		}},
		"container annotations": {config.Annotations, map[string]string{
			annotationHash: "h", annotationRestartCount: "4", annotationPodAttempt: "2", annotationImage: testImage,
			annotationTermMessagePath: "/dev/termination-log", annotationTermMessagePolicy: "", annotationGracePeriod: "7",
			annotationResources: "{}", annotationRound: "3", annotationCgroup: "/burstlet/besteffort/podu1",
		}},
		"log path":      {config.LogPath, "main/4.log"},
		"image":         {config.Image.Image, "sha256:" + testImage},
		"command":       {append(config.Command, config.Args...), []string{"a", "b"}},
		"env":           {config.Envs[0].Key + "=" + string(config.Envs[0].Value), "K=V"},
		"tty":           {[]bool{config.Stdin, config.StdinOnce, config.Tty}, []bool{true, true, true}},
		"user":          {config.Linux.SecurityContext.RunAsUser.GetValue(), int64(5)},
		"group":         {config.Linux.SecurityContext.RunAsGroup.GetValue(), int64(1001)},
		"groups":        {config.Linux.SecurityContext.SupplementalGroups, []int64{1002, 1003}},
		"add":           {config.Linux.SecurityContext.Capabilities.AddCapabilities, []string{"NET_ADMIN"}},
		"drop":          {config.Linux.SecurityContext.Capabilities.DropCapabilities, []string{"ALL"}},
		"flags":         {[]bool{config.Linux.SecurityContext.ReadonlyRootfs, config.Linux.SecurityContext.NoNewPrivs, config.Linux.SecurityContext.Privileged}, []bool{true, true, false}},
		"seccomp":       {config.Linux.SecurityContext.Seccomp.ProfileType, runtimeapi.SecurityProfile_RuntimeDefault},
		"pid namespace": {config.Linux.SecurityContext.NamespaceOptions.Pid, runtimeapi.NamespaceMode_NODE},
		"net namespace": {config.Linux.SecurityContext.NamespaceOptions.Network, runtimeapi.NamespaceMode_POD},
		"masked":        {len(config.Linux.SecurityContext.MaskedPaths) > 5, true},
		"oom":           {config.Linux.Resources.OomScoreAdj, int64(1000)},
	} {
		if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNamespaces(t *testing.T) {
	pod := testPod("u1")
	if n := namespaces(pod); n.Pid != runtimeapi.NamespaceMode_CONTAINER || n.Ipc != runtimeapi.NamespaceMode_POD {
		t.Errorf("plain: %v", n)
	}
	pod.Spec.ShareProcessNamespace, pod.Spec.HostIPC, pod.Spec.HostNetwork = new(true), true, true
	if n := namespaces(pod); n.Pid != runtimeapi.NamespaceMode_POD || n.Ipc != runtimeapi.NamespaceMode_NODE || n.Network != runtimeapi.NamespaceMode_NODE {
		t.Errorf("shared: %v", n)
	}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	if !sandboxSecurity(pod).Privileged {
		t.Error("the sandbox of a privileged container is not privileged")
	}
}

func TestRunAsNonRoot(t *testing.T) {
	user := func(image *runtimeapi.Image) func(*fakecri.Server) {
		return func(s *fakecri.Server) { s.Users[testImage] = image }
	}
	for _, tt := range []struct {
		name  string
		sc    corev1.SecurityContext
		image *runtimeapi.Image
		want  string
		uid   int64
	}{
		{"root image", corev1.SecurityContext{RunAsNonRoot: new(true)}, nil, "image will run as root", 0},
		{"image with uid 0", corev1.SecurityContext{RunAsNonRoot: new(true)}, &runtimeapi.Image{Uid: &runtimeapi.Int64Value{}}, "image will run as root", 0},
		{"named user", corev1.SecurityContext{RunAsNonRoot: new(true)}, &runtimeapi.Image{Username: "www"}, "non-numeric user (www)", 0},
		{"user of the image", corev1.SecurityContext{RunAsNonRoot: new(true)}, &runtimeapi.Image{Uid: &runtimeapi.Int64Value{Value: 7}}, "", 7},
		{"explicit user", corev1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(9))}, nil, "", 9},
		{"explicit root", corev1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(0))}, nil, "runAsUser breaks non-root policy", 0},
		{"group without user", corev1.SecurityContext{RunAsGroup: new(int64(3))}, &runtimeapi.Image{Uid: &runtimeapi.Int64Value{Value: 7}}, "", 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, config, err := configsOf(t, testPod("u1"), corev1.Container{Name: "main", Image: testImage, SecurityContext: &tt.sc}, user(tt.image))
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || backend.Class(err) != "Invalid" {
					t.Errorf("%v (%s), want an error of class Invalid saying %q", err, backend.Class(err), tt.want)
				}
				return
			}
			must(t, err)
			if got := config.Linux.SecurityContext.RunAsUser.GetValue(); got != tt.uid {
				t.Errorf("user %d, want %d", got, tt.uid)
			}
		})
	}
}
