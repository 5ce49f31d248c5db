package fields

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend/cri/criconfig"
)

func secured(sc corev1.SecurityContext) corev1.PodSpec {
	return corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "plain"}},
		Containers:     []corev1.Container{{Name: "app", SecurityContext: &sc}},
		EphemeralContainers: []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", SecurityContext: &sc},
		}},
	}
}

func withOwnUsers(spec corev1.PodSpec) corev1.PodSpec {
	spec.HostUsers = new(false)
	return spec
}

func capabilities(add ...corev1.Capability) corev1.SecurityContext {
	return corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: add, Drop: []corev1.Capability{"ALL"}}}
}

func TestPrivilegedIsForbidden(t *testing.T) {
	app, debug := "spec.containers[0].securityContext.", "spec.ephemeralContainers[0].securityContext."
	both := func(fields ...string) []string {
		var out []string
		for _, at := range []string{app, debug} {
			for _, f := range fields {
				out = append(out, at+f)
			}
		}
		return out
	}
	for name, tt := range map[string]struct {
		spec corev1.PodSpec
		want []string
	}{
		"nothing":    {secured(corev1.SecurityContext{}), nil},
		"privileged": {secured(corev1.SecurityContext{Privileged: new(true)}), both("privileged")},
		"not privileged": {
			secured(corev1.SecurityContext{Privileged: new(false), AllowPrivilegeEscalation: new(true)}), nil,
		},
		"Baseline": {secured(capabilities("CHOWN", "CAP_NET_BIND_SERVICE", "kill")), nil},
		"beyond Baseline": {
			secured(capabilities("CHOWN", "SYS_ADMIN", "CAP_SYS_PTRACE")), both("capabilities.add[1]", "capabilities.add[2]"),
		},
		"all": {secured(capabilities("ALL")), both("capabilities.add[0]")},
		"hidden by case": {secured(capabilities("sys_admin", "CAP_CAP_CHOWN", "")), both(
			"capabilities.add[0]", "capabilities.add[1]", "capabilities.add[2]",
		)},
		"unmasked": {
			secured(corev1.SecurityContext{ProcMount: new(corev1.UnmaskedProcMount)}), both("procMount"),
		},
		"unmasked, with users of its own": {
			withOwnUsers(secured(corev1.SecurityContext{ProcMount: new(corev1.UnmaskedProcMount)})), nil,
		},
		"masked": {secured(corev1.SecurityContext{ProcMount: new(corev1.DefaultProcMount)}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: tt.spec}
			forbids(t, pod, criconfig.Config{}, nil)
			forbids(t, pod, criconfig.Config{Unprivileged: true}, tt.want)
		})
	}
}

func forbids(t *testing.T, pod *corev1.Pod, cfg criconfig.Config, want []string) {
	t.Helper()
	var got []string
	for _, r := range Forbidden(pod, cfg) {
		if got = append(got, r.Field); r.Why == "" {
			t.Errorf("%s does not say why", r.Field)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("forbids %q\nwant %q", got, want)
	}
}

func TestHostPathsAreForbidden(t *testing.T) {
	mounts := func(path string, readOnly bool, propagation corev1.MountPropagationMode) *corev1.Pod {
		mount := corev1.VolumeMount{Name: "host", MountPath: "/x", ReadOnly: readOnly}
		if propagation != "" {
			mount.MountPropagation = &propagation
		}
		return &corev1.Pod{Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}},
			},
			Containers: []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/s"}, mount}}},
		}}
	}
	const volume, mount = "spec.volumes[1].hostPath.path", "spec.containers[0].volumeMounts[1]."
	some := []criconfig.HostPath{{PathPrefix: "/var/log", ReadOnly: true}, {PathPrefix: "/srv"}}
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		paths []criconfig.HostPath
		want  []string
	}{
		"everything":  {mounts("/etc", false, ""), nil, nil},
		"none":        {mounts("/etc", true, ""), []criconfig.HostPath{}, []string{volume}},
		"another":     {mounts("/etc", true, ""), some, []string{volume}},
		"a neighbour": {mounts("/srvx", true, ""), some, []string{volume}},
		"above":       {mounts("/var", true, ""), some, []string{volume}},
		"steps back":  {mounts("/srv/../etc", true, ""), some, []string{volume}},
		"itself":      {mounts("/srv", false, ""), some, nil},
		"below":       {mounts("/srv/a/b", false, ""), some, nil},
		"read":        {mounts("/var/log/pods", true, ""), some, nil},
		"written":     {mounts("/var/log/pods", false, ""), some, []string{mount + "readOnly"}},
		"propagated":  {mounts("/srv", false, corev1.MountPropagationHostToContainer), some, nil},
		"propagated below": {
			mounts("/srv/a", false, corev1.MountPropagationHostToContainer), some, []string{mount + "mountPropagation"},
		},
		"propagated below /": {
			mounts("/a", false, corev1.MountPropagationHostToContainer), []criconfig.HostPath{{PathPrefix: "/"}}, nil,
		},
		"not propagated, by name": {mounts("/srv/a", false, corev1.MountPropagationNone), some, nil},
	} {
		t.Run(name, func(t *testing.T) { forbids(t, tt.pod, criconfig.Config{HostPaths: tt.paths}, tt.want) })
	}
}
