package cri

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/host"
)

// A dry run asks what a launch then asks of the runtime and the host.
func TestADryRunAsksWhatALaunchAsks(t *testing.T) {
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
	c.Resources.Limits = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CAP_CHOWN"}}}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "dir", MountPath: "/d"}, {Name: "host", MountPath: "h", ReadOnly: true}, {Name: "files", MountPath: "/f"},
	}
	spec := launchSpec(pod, 0)
	spec.Containers = []backend.ContainerSpec{{Pod: pod, Container: *c, Hash: "h"}}

	dry, err := convert.DryRun(w.cfg, spec)
	must(t, err)
	must(t, pods{r}.Launch(t.Context(), t.Context(), spec))
	must(t, containers{r}.Start(t.Context(), spec.Ref(), spec.Containers[0]))
	_, config := w.fake.Container("main")
	cgroup := w.host.(*withoutCgroups).last()
	for _, sandbox := range w.fake.Sandboxes() {
		for what, pair := range map[string][2]any{
			"host name":  {sandbox.GetHostname(), dry.Sandbox.GetHostname()},
			"cgroup":     {sandbox.GetLinux().GetCgroupParent(), dry.Cgroup.Parent},
			"its limits": {limitsOf(cgroup), limitsOf(dry.Cgroup)},
			"pids":       {cgroup.PIDs, dry.Cgroup.PIDs},
			"logs":       {sandbox.GetLogDirectory(), dry.Sandbox.GetLogDirectory()},
			"namespaces": {
				sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions().String(),
				dry.Sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions().String(),
			},
			"servers": {sandbox.GetDnsConfig().GetServers(), dry.DNS(nil).GetServers()},
		} {
			if d := cmp.Diff(pair[0], pair[1]); d != "" {
				t.Errorf("%s (-launched +dry):\n%s", what, d)
			}
		}
	}
	got := dry.Containers[0].Config
	linux, dryLinux := config.GetLinux(), got.GetLinux()
	for what, pair := range map[string][2]any{
		"mounts":    {mountTexts(config), mountTexts(got)},
		"command":   {config.GetCommand(), got.GetCommand()},
		"directory": {config.GetWorkingDir(), got.GetWorkingDir()},
		"log":       {config.GetLogPath(), got.GetLogPath()},
		"user": {
			linux.GetSecurityContext().GetRunAsUser().GetValue(), dryLinux.GetSecurityContext().GetRunAsUser().GetValue(),
		},
		"groups": {linux.GetSecurityContext().GetSupplementalGroups(), dryLinux.GetSecurityContext().GetSupplementalGroups()},
		"added": {
			linux.GetSecurityContext().GetCapabilities().GetAddCapabilities(),
			dryLinux.GetSecurityContext().GetCapabilities().GetAddCapabilities(),
		},
		"resources": {resourceNumbers(linux.GetResources()), resourceNumbers(dryLinux.GetResources())},
	} {
		if d := cmp.Diff(pair[0], pair[1]); d != "" {
			t.Errorf("%s (-launched +dry):\n%s", what, d)
		}
	}
	if dry.HostOOMScore {
		t.Errorf("%s: the OOM score depends on the host", dry.QOSClass)
	}
}

func limitsOf(c host.Cgroup) []int64 { return []int64{c.Shares, c.Quota, c.Period, c.Memory} }

func mountTexts(c *runtimeapi.ContainerConfig) []string {
	var out []string
	for _, m := range c.GetMounts() {
		out = append(out, fmt.Sprint(m.GetContainerPath(), m.GetHostPath(), m.GetReadonly()))
	}
	return out
}

func resourceNumbers(r *runtimeapi.LinuxContainerResources) []int64 {
	return []int64{r.GetCpuShares(), r.GetCpuQuota(), r.GetCpuPeriod(), r.GetMemoryLimitInBytes(), r.GetOomScoreAdj()}
}
