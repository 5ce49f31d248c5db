package syncloop_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
)

// replicaSet keeps pods alive as the controller of that name does: one that has
// failed is replaced at once.
type replicaSet struct {
	*api
	replicas int
	// deletes is true for one that deletes what has failed; a ReplicaSet leaves it
	// to the garbage collector of pods.
	deletes bool
	made    int
	change  func(*corev1.Pod)
	// field is what its pods are refused for.
	field string
}

// sync does one round of the controller.
func (r *replicaSet) sync() {
	alive := 0
	for n := range r.made {
		pod := r.get(replica(n))
		if pod == nil {
			continue
		}
		r.look(pod)
		if pod.Status.Phase != corev1.PodFailed {
			alive++
		} else if r.deletes && pod.DeletionTimestamp == nil {
			r.delete(pod.Name, 30)
		}
	}
	for ; alive < r.replicas; alive++ {
		r.create(replica(r.made), types.UID(fmt.Sprint("u", r.made)), corev1.RestartPolicyAlways, func(pod *corev1.Pod) {
			yes := true
			pod.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: &yes,
			}}
			r.change(pod)
		}, "sleep", "infinity")
		r.made++
	}
}

func replica(n int) string { return fmt.Sprint("web-", n) }

// look checks what a user is told of a pod that was refused.
func (r *replicaSet) look(pod *corev1.Pod) {
	if s := pod.Status; s.Phase == corev1.PodFailed {
		if s.Reason != "UnsupportedByBackend" || !strings.HasPrefix(s.Message, "Pod was rejected: ") {
			r.t.Errorf("%s failed with %s: %s", pod.Name, s.Reason, s.Message)
		}
	} else if s.Phase != corev1.PodPending {
		r.t.Errorf("%s is %s", pod.Name, s.Phase)
	}
	// The first look is one round after it was made.
	if e := r.event(pod.Name, "UnsupportedByBackend"); !strings.Contains(e, r.field) {
		r.t.Errorf("%s after %s: the Event %q does not name %s", pod.Name, time.Since(pod.CreationTimestamp.Time), e, r.field)
	}
}

// TestRefusedDeployment: a Deployment of three that can never run does not make
// pods without end, and each of its pods says at once what is wrong with it.
func TestRefusedDeployment(t *testing.T) {
	fields := []struct {
		field  string
		change func(*corev1.Pod)
		check  backend.Checker
	}{
		{field: "spec.resourceClaims[0]", change: unsupported},
		{field: "spec.volumes[0].iscsi", change: iscsi, check: backend.CheckFunc(refuseISCSI)},
	}
	for _, tt := range fields {
		for _, deletes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, failed pods deleted: %v", tt.field, deletes), func(t *testing.T) {
				for name, podUnit := range map[string]bool{"containers": false, "task": true} {
					t.Run(name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							a := newAPI(t)
							a.remote = sim.New(sim.Config{PodUnit: podUnit, Record: true})
							b := a.remote.Backend()
							if tt.check != nil {
								b.Check = tt.check
							}
							a.start(b)
							defer func() { a.stop() }()
							rs := &replicaSet{api: a, replicas: 3, deletes: deletes, change: tt.change, field: tt.field}
							tenMinutes(t, rs)
						})
					})
				}
			})
		}
	}
}

func tenMinutes(t *testing.T, rs *replicaSet) {
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); {
		rs.sync()
		time.Sleep(100 * time.Millisecond)
	}
	if rs.made < 5 || rs.made >= 30 {
		t.Errorf("%d pods in ten minutes, want some, and fewer than 30", rs.made)
	}
	if launches := rs.remote.Audit().Launches; len(launches) > 0 {
		t.Errorf("launches of pods that were refused: %v", launches)
	}
	t.Logf("%d pods in ten minutes", rs.made)
}

func iscsi(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
		ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.2026-01.test:disk"},
	}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "disk", MountPath: "/disk"}}
}

// refuseISCSI refuses what the backends refuse.
func refuseISCSI(pod *corev1.Pod) (out []backend.Refusal) {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].ISCSI != nil {
			out = append(
				out, backend.Refusal{Field: fmt.Sprintf("spec.volumes[%d].iscsi", i), Why: "iSCSI disks cannot be attached"},
			)
		}
	}
	return out
}
