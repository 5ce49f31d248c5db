package explain

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/criconfig"
)

const testImage = "registry.test/app:1"

func testPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "name-u1", UID: "u1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: testImage}}},
	}
}

// What is explained is what a dry run asks, which a launch asks too (backend/cri:
// TestADryRunAsksWhatALaunchAsks).
func TestExplainTellsWhatADryRunAsks(t *testing.T) {
	cfg := criconfig.Config{
		Endpoint: "unix:///r.sock", NodeIdentity: "n", ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local",
		PodPidsLimit: 77,
	}
	pod := testPod()
	pod.Spec.HostPID = true
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(7)), SupplementalGroups: []int64{8}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "dir", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv"}}},
		{Name: "files", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
	}
	c := &pod.Spec.Containers[0]
	c.TerminationMessagePath, c.Command, c.WorkingDir = "/dev/termination-log", []string{"a", "b"}, "/w"
	c.Resources.Limits = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CAP_CHOWN"}}}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "dir", MountPath: "/d"}, {Name: "host", MountPath: "h", ReadOnly: true}, {Name: "files", MountPath: "/f"},
	}
	launch := backend.LaunchSpec{Pod: pod, Containers: []backend.ContainerSpec{{Pod: pod, Container: *c, Hash: "h"}}}
	dry, err := convert.DryRun(cfg, launch)
	if err != nil {
		t.Fatal(err)
	}
	told, err := Explain(cfg, launch)
	if err != nil {
		t.Fatal(err)
	}
	got, config := told.Containers[0], dry.Containers[0].Config
	var mounts, toldMounts []string
	for _, m := range config.GetMounts() {
		mounts = append(mounts, fmt.Sprint(m.GetContainerPath(), m.GetHostPath(), m.GetReadonly()))
	}
	for _, m := range got.Mounts {
		toldMounts = append(toldMounts, fmt.Sprint(m.Path, m.HostPath, m.ReadOnly))
	}
	linux, cgroup := config.GetLinux(), dry.Cgroup
	for what, pair := range map[string][2]any{
		"host name": {dry.Sandbox.GetHostname(), told.Sandbox.Hostname},
		"cgroup":    {dry.Sandbox.GetLinux().GetCgroupParent(), told.Sandbox.Cgroup},
		"its limits": {
			ResourcesPreview{CPUShares: cgroup.Shares, CPUQuota: cgroup.Quota, CPUPeriod: cgroup.Period, Memory: cgroup.Memory},
			told.Sandbox.Resources,
		},
		"pids":       {cgroup.PIDs, told.Sandbox.PIDs},
		"logs":       {dry.Sandbox.GetLogDirectory(), told.Sandbox.Logs},
		"namespaces": {NamespacesPreview{Network: "pod", IPC: "pod", PID: "host", User: "host"}, told.Sandbox.Namespaces},
		"servers":    {dry.DNS(nil).GetServers(), told.Sandbox.DNS.Servers},
		"mounts":     {mounts, toldMounts},
		"command":    {config.GetCommand(), got.Command},
		"directory":  {config.GetWorkingDir(), got.WorkingDir},
		"log":        {told.Sandbox.Logs + "/" + config.GetLogPath(), got.Log},
		"user":       {fmt.Sprint(linux.GetSecurityContext().GetRunAsUser().GetValue()), got.Security.User},
		"groups":     {linux.GetSecurityContext().GetSupplementalGroups(), got.Security.SupplementalGroups},
		"added":      {linux.GetSecurityContext().GetCapabilities().GetAddCapabilities(), got.Security.AddCapabilities},
		"resources":  {explainResources(linux.GetResources(), dry.HostOOMScore), got.Cgroup},
		"volume":     {dry.Dir.Volume("dir"), told.Volumes[0].Path},
	} {
		if d := cmp.Diff(pair[0], pair[1]); d != "" {
			t.Errorf("%s (-asked +told):\n%s", what, d)
		}
	}
}

// Init containers start one after the other, sidecars are waited for and end last
// (kubelet-behaviours: computePodActions, termination order).
func TestExplainTellsTheOrderOfContainers(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pod := testPod()
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name: "second", Image: testImage, RestartPolicy: new(corev1.ContainerRestartPolicyOnFailure),
	})
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "one", Image: testImage},
		{Name: "side", Image: testImage, RestartPolicy: &always},
		{Name: "probed", Image: testImage, RestartPolicy: &always, StartupProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}},
		}},
	}
	spec := backend.LaunchSpec{Pod: pod}
	for i, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			spec.Containers = append(spec.Containers, backend.ContainerSpec{Pod: pod, Container: c, Init: i == 0})
		}
	}
	told, err := Explain(criconfig.Config{Endpoint: "unix:///r.sock", NodeIdentity: "n"}, spec)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range told.Containers {
		got = append(
			got, fmt.Sprintf("%s %s | starts %s | restarts %s | ends %s", c.Kind, c.Name, c.Starts, c.Restarts, c.Ends),
		)
	}
	want := []string{
		"init container one | starts at once | restarts never | ends with the pod",
		"sidecar side | starts when one has ended with 0 | restarts whenever it ends | ends with the pod, after probed, " +
			"main, second",
		"sidecar probed | starts when side has started | restarts whenever it ends | ends with the pod, after main, second",
		"container main | starts when the startup probe of probed has passed | restarts never | ends with the pod",
		"container second | starts when the startup probe of probed has passed | restarts when it fails | ends with the pod",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
