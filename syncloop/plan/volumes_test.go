package plan

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/syncloop/resolve"
)

// volume mounts an emptyDir v in the first container.
func volume(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{
		Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
}

// configVolume mounts the ConfigMap "config".
func configVolume(pod *corev1.Pod) {
	volume(pod)
	pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "config"},
	}}
}

func TestVolumes(t *testing.T) {
	places := func(in Input) Input { in.Places = true; return in }
	has := func(in Input, data string) Input {
		in.Objects.ConfigMaps = map[string]resolve.Object[*corev1.ConfigMap]{
			"config": {Value: &corev1.ConfigMap{Data: map[string]string{"k": data}}},
		}
		return in
	}
	lacks := func(in Input) Input {
		in.Objects.ConfigMaps = map[string]resolve.Object[*corev1.ConfigMap]{
			"config": {Err: errors.New(`configmap "config" not found`)},
		}
		return in
	}
	placed := func(m *Memory) { m.Placed["v"] = "before" }
	alive := attempt(0, true, runs("a", 0, 1))
	for _, tt := range []struct {
		planCase
		says []string
	}{
		{planCase: planCase{
			name: "placed before the sandbox", in: places(input(aPod(volume), 0)),
			want: []string{"place volume v", "launch attempt 0", "start container a attempt 0"}, phase: "Pending",
		}},
		{planCase: planCase{
			name: "placed already", in: places(input(aPod(volume), 0)),
			mem: func(m *Memory) {
				m.Placed["v"], m.Mounted["v"] = Decide(places(input(aPod(volume), 0))).Actions[0].(PlaceVolume).Spec.Hash, true
			},
			want: []string{"launch attempt 0", "start container a attempt 0"}, phase: "Pending",
		}},
		{planCase: planCase{
			name: "contents not known yet: wait", in: places(input(aPod(configVolume), 0)), phase: "Pending",
		}},
		{
			planCase: planCase{
				name: "contents cannot be had: say so and wait", in: lacks(places(input(aPod(configVolume), 0))), phase: "Pending",
			},
			says: []string{`FailedMount MountVolume.SetUp failed for volume "v" : configmap "config" not found`},
		},
		{planCase: planCase{
			name: "contents changed: swapped in under a running container",
			in:   has(places(input(aPod(configVolume), 3, alive)), "new"),
			mem:  placed, want: []string{"place volume v"}, phase: "Running",
		}},
		{planCase: planCase{
			name: "contents changed: swapped in under a running task",
			in:   task(has(places(input(aPod(configVolume), 3, alive)), "new")),
			mem:  placed, want: []string{"place volume v"}, phase: "Running",
		}},
		{planCase: planCase{
			name: "contents gone: what is placed stays", in: lacks(places(input(aPod(configVolume), 3, alive))), mem: placed,
			phase: "Running",
		}, says: []string{`FailedMount MountVolume.SetUp failed for volume "v" : configmap "config" not found`}},
		{planCase: planCase{
			name: "a place that failed is tried again after a while", in: places(input(aPod(volume), 1)),
			mem:   func(m *Memory) { m.Failures["volume v"] = Failure{At: at(0.5), Delay: time.Second} },
			phase: "Pending", wake: 1.5,
		}},
		{planCase: planCase{
			name: "a sandbox was made beside a place that failed: no container starts without it",
			in:   places(input(aPod(volume), 1, attempt(0, true))),
			mem:  func(m *Memory) { m.Failures["volume v"] = Failure{At: at(0.5), Delay: time.Second} }, phase: "Pending",
			wake: 1.5,
		}},
		{planCase: planCase{
			name: "and it is placed before they do", in: places(input(aPod(volume), 2, attempt(0, true))),
			mem:  func(m *Memory) { m.Failures["volume v"] = Failure{At: at(0.5), Delay: time.Second} },
			want: []string{"place volume v", "start container a attempt 0"}, phase: "Pending",
		}},
		{planCase: planCase{
			name: "a new sandbox: placed again, its host may have lost it",
			in:   places(input(aPod(volume, running(0)), 5, attempt(0, false, ran1("a", 0, 1, 4, 1)))),
			mem:  placed, want: []string{"place volume v", "launch attempt 1", "start container a attempt 1"}, phase: "Running",
		}, says: []string{"SandboxChanged Pod sandbox changed, it will be killed and re-created."}},
		{planCase: planCase{
			name: "cleared when the pod has ended, though it stays in the API",
			in:   places(input(aPod(volume, policy("Never"), completed), 9, attempt(0, false, ran1("a", 0, 1, 2, 0)))),
			mem:  placed, want: []string{"clear volumes"}, phase: "Succeeded",
		}},
		{planCase: planCase{
			name: "and not again",
			in:   places(input(aPod(volume, policy("Never"), completed), 9, attempt(0, false, ran1("a", 0, 1, 2, 0)))),
			mem: func(m *Memory) {
				placed(m)
				m.Cleared = Removal{Count: 1, Proven: true}
			},
			phase: "Succeeded",
		}},
		{planCase: planCase{
			name: "cleared once nothing runs and no attempt is left", in: places(input(aPod(volume, deleted(7, 9)), 3)),
			mem:  func(m *Memory) { m.Removes[0] = Removal{Count: 1, Proven: true} },
			want: []string{"clear volumes"}, phase: "Failed",
		}},
		{planCase: planCase{
			name: "cleared and proved: reclaimed", in: places(input(aPod(volume, deleted(7, 9)), 3)),
			mem: func(m *Memory) {
				m.Removes[0], m.Cleared = Removal{Count: 1, Proven: true}, Removal{Count: 1, Proven: true}
			},
			phase: "Failed", reclaimed: true,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.decide(t)
			var says []string
			for _, s := range p.Events {
				says = append(says, s.Reason+" "+s.Message)
			}
			if !slices.Equal(says, tt.says) || p.Reclaimed != tt.reclaimed {
				t.Errorf("says %q, want %q; reclaimed %v", says, tt.says, p.Reclaimed)
			}
		})
	}
}
