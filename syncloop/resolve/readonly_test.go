package resolve

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What a kubelet does with recursiveReadOnly, by what the pod's runtime handler can do.
func TestReadOnlyBelow(t *testing.T) {
	objects := Objects{ServicesSynced: true, RuntimeHandlers: map[string]Object[string]{
		"old": {Value: "runc-old"}, "new": {Value: "runc-new"},
	}}
	for _, tt := range []struct {
		name  string
		mode  corev1.RecursiveReadOnlyMode
		class *string
		m     corev1.VolumeMount
		can   []string
		below bool
		err   string
	}{
		{name: "not asked for", m: corev1.VolumeMount{ReadOnly: true}, can: []string{""}},
		{name: "disabled", mode: corev1.RecursiveReadOnlyDisabled, m: corev1.VolumeMount{ReadOnly: true}, can: []string{""}},
		{
			name: "if possible", mode: corev1.RecursiveReadOnlyIfPossible, m: corev1.VolumeMount{ReadOnly: true},
			can: []string{""}, below: true,
		},
		{name: "if possible, and it is not", mode: corev1.RecursiveReadOnlyIfPossible, m: corev1.VolumeMount{ReadOnly: true}},
		{
			name: "enabled", mode: corev1.RecursiveReadOnlyEnabled, m: corev1.VolumeMount{ReadOnly: true}, can: []string{""},
			below: true,
		},
		{
			name: "of another handler", mode: corev1.RecursiveReadOnlyEnabled, class: new("new"),
			m: corev1.VolumeMount{ReadOnly: true}, can: []string{"runc-new"}, below: true,
		},
		{
			name: "not of this handler", mode: corev1.RecursiveReadOnlyEnabled, class: new("old"),
			m: corev1.VolumeMount{ReadOnly: true}, can: []string{"", "runc-new"},
			err: `volume "v" requested recursive read-only mode, but it is not supported by the runtime`,
		},
		{
			name: "enabled, and it cannot be", mode: corev1.RecursiveReadOnlyEnabled, m: corev1.VolumeMount{ReadOnly: true},
			err: `volume "v" requested recursive read-only mode, but it is not supported by the runtime`,
		},
		{
			name: "writable", mode: corev1.RecursiveReadOnlyIfPossible, can: []string{""},
			err: `volume "v" requested recursive read-only mode, but it is not read-only`,
		},
		{
			name: "propagated", mode: corev1.RecursiveReadOnlyEnabled, can: []string{""},
			m:   corev1.VolumeMount{ReadOnly: true, MountPropagation: new(corev1.MountPropagationHostToContainer)},
			err: `volume "v" requested recursive read-only mode, but it is not compatible with propagation "HostToContainer"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.m.Name = "v"
			if tt.mode != "" {
				tt.m.RecursiveReadOnly = &tt.mode
			}
			pod := &corev1.Pod{Spec: corev1.PodSpec{RuntimeClassName: tt.class}}
			c := &corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{tt.m}}
			out, _, err := Resolve(pod, c, objects, Node{RecursiveReadOnly: tt.can}, Addresses{})
			if err != nil || tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			mode := out.VolumeMounts[0].RecursiveReadOnly
			if got := mode != nil && *mode == corev1.RecursiveReadOnlyEnabled; got != tt.below || mode != nil && !got {
				t.Errorf("resolved as %v, want below %t", mode, tt.below)
			}
		})
	}
}
