package cri

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/burstlet/burstlet/backend"
)

// What is explained is what a launch then tells the runtime and the host.
func TestExplainTellsWhatALaunchDoes(t *testing.T) {
	w := newWorld(t)
	w.cfg.ClusterDNS, w.cfg.ClusterDomain, w.cfg.PodPidsLimit = []string{"10.96.0.10"}, "cluster.local", 77
	r, _ := w.connect(t)
	pod := testPod("u1")
	pod.Spec.HostPID = true
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(7)), SupplementalGroups: []int64{8}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "dir", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv"}}},
		{Name: "files", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
	}
	c := &pod.Spec.Containers[0]
	c.TerminationMessagePath, c.Command, c.WorkingDir = "/dev/termination-log", []string{"a", "b"}, "/w"
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CAP_CHOWN"}}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "dir", MountPath: "/d"}, {Name: "host", MountPath: "h", ReadOnly: true}, {Name: "files", MountPath: "/f"}}
	spec := launchSpec(pod, 0)
	spec.Containers = []backend.ContainerSpec{{Pod: pod, Container: *c, Hash: "h"}}

	told, err := Explain(t.Context(), w.cfg, spec)
	must(t, err)
	must(t, pods{r}.Launch(t.Context(), spec))
	must(t, containers{r}.Start(t.Context(), spec.Ref(), spec.Containers[0]))
	_, config := w.fake.Container("main")
	cgroup := w.host.(*withoutCgroups).last()
	for _, sandbox := range w.fake.Sandboxes() {
		for what, pair := range map[string][2]any{
			"host name": {sandbox.GetHostname(), told.Sandbox.Hostname},
			"cgroup":    {sandbox.GetLinux().GetCgroupParent(), told.Sandbox.Cgroup},
			"its limits": {
				ResourcesPreview{CPUShares: cgroup.Shares, CPUQuota: cgroup.Quota, CPUPeriod: cgroup.Period, Memory: cgroup.Memory}, told.Sandbox.Resources,
			},
			"pids":       {cgroup.PIDs, told.Sandbox.PIDs},
			"logs":       {sandbox.GetLogDirectory(), told.Sandbox.Logs},
			"namespaces": {explainNamespaces(sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions()), told.Sandbox.Namespaces},
			"servers":    {sandbox.GetDnsConfig().GetServers(), told.Sandbox.DNS.Servers},
		} {
			if d := cmp.Diff(pair[0], pair[1]); d != "" {
				t.Errorf("%s (-launched +told):\n%s", what, d)
			}
		}
	}
	got := told.Containers[0]
	var mounts []string
	for _, m := range config.GetMounts() {
		mounts = append(mounts, fmt.Sprint(m.GetContainerPath(), m.GetHostPath(), m.GetReadonly()))
	}
	var toldMounts []string
	for _, m := range got.Mounts {
		toldMounts = append(toldMounts, fmt.Sprint(m.Path, m.HostPath, m.ReadOnly))
	}
	linux := config.GetLinux()
	for what, pair := range map[string][2]any{
		"mounts":    {mounts, toldMounts},
		"command":   {config.GetCommand(), got.Command},
		"directory": {config.GetWorkingDir(), got.WorkingDir},
		"log":       {told.Sandbox.Logs + "/" + config.GetLogPath(), got.Log},
		"user":      {fmt.Sprint(linux.GetSecurityContext().GetRunAsUser().GetValue()), got.Security.User},
		"groups":    {linux.GetSecurityContext().GetSupplementalGroups(), got.Security.SupplementalGroups},
		"added":     {linux.GetSecurityContext().GetCapabilities().GetAddCapabilities(), got.Security.AddCapabilities},
		"resources": {explainResources(pod, linux.GetResources()), got.Cgroup},
	} {
		if d := cmp.Diff(pair[0], pair[1]); d != "" {
			t.Errorf("%s (-launched +told):\n%s", what, d)
		}
	}
}

// Init containers start one after the other, sidecars are waited for and end last
// (kubelet-behaviours: computePodActions, termination order).
func TestExplainTellsTheOrderOfContainers(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pod := testPod("u1")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "second", Image: testImage, RestartPolicy: new(corev1.ContainerRestartPolicyOnFailure)})
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "one", Image: testImage},
		{Name: "side", Image: testImage, RestartPolicy: &always},
		{Name: "probed", Image: testImage, RestartPolicy: &always, StartupProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}}},
	}
	spec := launchSpec(pod, 0)
	for i, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			spec.Containers = append(spec.Containers, backend.ContainerSpec{Pod: pod, Container: c, Init: i == 0})
		}
	}
	told, err := Explain(t.Context(), Config{Endpoint: "unix:///r.sock", NodeIdentity: "n"}, spec)
	must(t, err)
	var got []string
	for _, c := range told.Containers {
		got = append(got, fmt.Sprintf("%s %s | starts %s | restarts %s | ends %s", c.Kind, c.Name, c.Starts, c.Restarts, c.Ends))
	}
	want := []string{
		"init container one | starts at once | restarts never | ends with the pod",
		"sidecar side | starts when one has ended with 0 | restarts whenever it ends | ends with the pod, after probed, main, second",
		"sidecar probed | starts when side has started | restarts whenever it ends | ends with the pod, after main, second",
		"container main | starts when the startup probe of probed has passed | restarts never | ends with the pod",
		"container second | starts when the startup probe of probed has passed | restarts when it fails | ends with the pod",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
