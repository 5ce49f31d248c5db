package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

func TestStages(t *testing.T) {
	place := func(name string, source corev1.VolumeSource) Action {
		return PlaceVolume{Spec: backend.VolumeSpec{Name: name, Source: source}}
	}
	token := place("token", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}})
	scratch := place("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	nfs := place("nfs", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}})
	path := place("path", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}})
	start := func(name string) Action {
		return StartContainer{Spec: backend.ContainerSpec{Container: corev1.Container{Name: name}}}
	}
	task := Launch{Spec: backend.LaunchSpec{Containers: make([]backend.ContainerSpec, 1)}}
	for _, tt := range []struct {
		name    string
		actions []Action
		want    string
	}{
		{"nothing", nil, ""},
		{
			"a sandbox beside written volumes",
			[]Action{token, scratch, Launch{}, start("a")},
			"place volume token + place volume scratch + launch attempt 0; start container a attempt 0",
		},
		{
			"what may hang or be refused is there before the sandbox",
			[]Action{nfs, token, path, Launch{}, start("a")},
			"place volume nfs + place volume path; place volume token + launch attempt 0; start container a attempt 0",
		},
		{
			"a pod launched whole comes after its volumes",
			[]Action{token, scratch, task},
			"place volume token + place volume scratch; launch attempt 0",
		},
		{
			"containers start one after another",
			[]Action{Launch{}, start("a"), start("b")},
			"launch attempt 0; start container a attempt 0; start container b attempt 0",
		},
		{
			"new contents beside nothing else",
			[]Action{token, start("a")},
			"place volume token; start container a attempt 0",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, stage := range Stages(tt.actions) {
				var names []string
				for _, a := range stage {
					names = append(names, fmt.Sprint(a))
				}
				got = append(got, strings.Join(names, " + "))
			}
			if all := strings.Join(got, "; "); all != tt.want {
				t.Errorf("%s\nwant %s", all, tt.want)
			}
		})
	}
}

// TestStagesKeepThePlan: a plan that is looked at again is as it was.
func TestStagesKeepThePlan(t *testing.T) {
	actions := []Action{
		PlaceVolume{Spec: backend.VolumeSpec{Name: "a", Source: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}}},
		PlaceVolume{Spec: backend.VolumeSpec{
			Name: "b", Source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		}},
		Launch{},
		StartContainer{},
	}
	before := fmt.Sprint(actions)
	Stages(actions)
	if after := fmt.Sprint(actions); after != before || slices.Contains(actions, nil) {
		t.Errorf("%s, was %s", after, before)
	}
}
