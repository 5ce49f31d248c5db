package cri

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

func resources(requests, limits string) corev1.ResourceRequirements {
	return fakecri.Resources(requests, limits)
}

// configsOf runs a pod and returns what reached the runtime.
func configsOf(
	t *testing.T, pod *corev1.Pod, c corev1.Container, set ...func(*fakecri.Server),
) (*runtimeapi.PodSandboxConfig, *runtimeapi.ContainerConfig, error) {
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
		RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1001)), FSGroup: new(int64(1002)),
		SupplementalGroups: []int64{1003},
		Sysctls:            []corev1.Sysctl{{Name: "net.ipv4.ip_forward", Value: "1"}},
		SeccompProfile:     &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	c := corev1.Container{
		Name: "main", Image: testImage, Command: []string{"a"}, Args: []string{"b"}, WorkingDir: "/w", Stdin: true,
		StdinOnce: true, TTY: true,
		Env: []corev1.EnvVar{{Name: "K", Value: "V"}}, TerminationMessagePath: "/dev/termination-log",
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: new(int64(5)), ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CAP_NET_ADMIN"}, Drop: []corev1.Capability{"ALL"}},
		},
	}
	pod.Spec.Containers[0] = *c.DeepCopy()
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{
		{ContainerPort: 80}, {ContainerPort: 53, HostPort: 5353, Protocol: corev1.ProtocolUDP, HostIP: "127.0.0.1"},
	}
	box, config, err := configsOf(t, pod, c)
	must(t, err)
	for name, pair := range map[string][2]any{
		"metadata": {
			box.Metadata.String(),
			(&runtimeapi.PodSandboxMetadata{Name: "name-u1", Namespace: "ns", Uid: "u1", Attempt: 2}).String(),
		},
		"labels": {box.Labels, map[string]string{
			"app": "x", convert.LabelPodName: "name-u1", convert.LabelPodNamespace: "ns", convert.LabelPodUID: "u1",
			convert.LabelNode: "node-a",
		}},
		"annotations": {
			box.Annotations, map[string]string{"note": "x", convert.AnnotationCgroup: "/burstlet/besteffort/podu1"},
		},
		"cgroup": {box.Linux.CgroupParent, "/burstlet/besteffort/podu1"},
		"ports": {fmt.Sprint(box.PortMappings), fmt.Sprint([]*runtimeapi.PortMapping{{
			Protocol: runtimeapi.Protocol_UDP, ContainerPort: 53, HostPort: 5353, HostIp: "127.0.0.1",
		}})},
		"sysctls":      {box.Linux.Sysctls, map[string]string{"net.ipv4.ip_forward": "1"}},
		"sandbox user": {box.Linux.SecurityContext.RunAsUser.GetValue(), int64(1000)},
		"container labels": {config.Labels, map[string]string{
			convert.LabelPodName: "name-u1", convert.LabelPodNamespace: "ns", convert.LabelPodUID: "u1",
			convert.LabelContainerName: "main", convert.LabelNode: "node-a",
		}},
		"container annotations": {config.Annotations, map[string]string{
			convert.AnnotationHash: "h", convert.AnnotationRestartCount: "4", convert.AnnotationPodAttempt: "2",
			convert.AnnotationImage:           testImage,
			convert.AnnotationTermMessagePath: "/dev/termination-log", convert.AnnotationTermMessagePolicy: "",
			convert.AnnotationGracePeriod: "7",
			convert.AnnotationResources:   "{}", convert.AnnotationRound: "3",
			convert.AnnotationCgroup: "/burstlet/besteffort/podu1",
		}},
		"log path": {config.LogPath, "main/4.log"},
		"image":    {config.Image.Image, "sha256:" + testImage},
		"command":  {append(config.Command, config.Args...), []string{"a", "b"}},
		"env":      {config.Envs[0].Key + "=" + string(config.Envs[0].Value), "K=V"},
		"tty":      {[]bool{config.Stdin, config.StdinOnce, config.Tty}, []bool{true, true, true}},
		"user":     {config.Linux.SecurityContext.RunAsUser.GetValue(), int64(5)},
		"group":    {config.Linux.SecurityContext.RunAsGroup.GetValue(), int64(1001)},
		"groups":   {config.Linux.SecurityContext.SupplementalGroups, []int64{1002, 1003}},
		"add":      {config.Linux.SecurityContext.Capabilities.AddCapabilities, []string{"NET_ADMIN"}},
		"drop":     {config.Linux.SecurityContext.Capabilities.DropCapabilities, []string{"ALL"}},
		"flags": {[]bool{
			config.Linux.SecurityContext.ReadonlyRootfs, config.Linux.SecurityContext.NoNewPrivs,
			config.Linux.SecurityContext.Privileged,
		}, []bool{true, true, false}},
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
		{
			"image with uid 0",
			corev1.SecurityContext{RunAsNonRoot: new(true)},
			&runtimeapi.Image{Uid: &runtimeapi.Int64Value{}}, "image will run as root", 0,
		},
		{
			"named user",
			corev1.SecurityContext{RunAsNonRoot: new(true)},
			&runtimeapi.Image{Username: "www"},
			"non-numeric user (www)", 0,
		},
		{
			"user of the image",
			corev1.SecurityContext{RunAsNonRoot: new(true)},
			&runtimeapi.Image{Uid: &runtimeapi.Int64Value{Value: 7}}, "", 7,
		},
		{"explicit user", corev1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(9))}, nil, "", 9},
		{
			"explicit root",
			corev1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(0))},
			nil,
			"runAsUser breaks non-root policy", 0,
		},
		{
			"group without user",
			corev1.SecurityContext{RunAsGroup: new(int64(3))},
			&runtimeapi.Image{Uid: &runtimeapi.Int64Value{Value: 7}}, "", 7,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, config, err := configsOf(
				t, testPod("u1"), corev1.Container{Name: "main", Image: testImage, SecurityContext: &tt.sc}, user(tt.image),
			)
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

// TestContainersThatCannotBeConfigured: what is wrong with the container itself is
// of class Invalid, which users see as CreateContainerConfigError.
func TestContainersThatCannotBeConfigured(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	pod := testPod("u1")
	pod.Spec.Volumes = []corev1.Volume{{
		Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	ref := runPod(t, r, pod)
	volume := r.convert.PodDir(pod.UID).Volume("scratch")
	must(t, os.MkdirAll(volume, 0o755))
	must(t, os.Symlink("/etc", filepath.Join(volume, "out")))
	must(t, os.WriteFile(filepath.Join(volume, "file"), nil, 0o600))
	for name, tt := range map[string]struct {
		change func(*corev1.Container)
		want   string
	}{
		"runAsNonRoot of a root image": {
			func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(true)} },
			"container has runAsNonRoot and image will run as root",
		},
		"a subPath that leads out of its volume": {
			func(c *corev1.Container) {
				c.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch", SubPath: "out"}}
			},
			`failed to prepare subPath for a volumeMount of container "main": `,
		},
		"a subPath that leads through a file": {
			func(c *corev1.Container) {
				c.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch", SubPath: "file/below"}}
			},
			`failed to prepare subPath for a volumeMount of container "main": `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := containerSpec(pod, "main", 0)
			tt.change(&spec.Container)
			err := containers{r}.Start(t.Context(), ref, spec)
			wantClass(t, err, backend.ErrInvalid)
			if err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q does not say %q", err, tt.want)
			}
		})
	}
}
