package ecslife

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend/ecs"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// scratch gives a pod a volume made for it.
func scratch(pod *corev1.Pod) {
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("30Gi")},
				},
			}},
		}}},
	}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
}

// The claim that Kubernetes makes for the volume stays Pending: nothing here knows
// it. Each task has a volume, and none outlives its task.
func TestAVolumeMadeForThePodWaitsForNoClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, stub.Config{Delays: usual})
		c.change = func(cfg *ecs.Config) { cfg.EBS = ecsconfig.EBS{RoleARN: "arn:aws:iam::123456789012:role/volumes"} }
		p := c.start(&link{})
		defer func() { p.end() }()
		time.Sleep(time.Second)
		c.create("p", corev1.RestartPolicyAlways, scratch, "sh", "-c", "trap 'exit 0' TERM; sleep 300; exit 1")
		c.pass(2 * time.Minute)
		first := c.server.Volumes()
		if phase := c.get("p").Status.Phase; phase != corev1.PodRunning || len(first) != 1 || first[0].GiB != 30 {
			t.Fatalf("%s, volumes %+v", phase, first)
		}
		c.pass(6 * time.Minute)
		second := c.server.Volumes()
		if restarts := statusOf(c, "a").RestartCount; restarts < 1 || len(second) != 1 || second[0].ID == first[0].ID {
			t.Errorf("%d restarts, volumes %+v", restarts, second)
		}
		c.delete("p")
		c.pass(2 * time.Minute)
		if left := c.server.Volumes(); c.get("p") != nil || len(left) > 0 {
			t.Errorf("after its deletion: %v, volumes %v", c.get("p"), left)
		}
	})
}

func TestAPodWithAVolumeIsRefusedWhereThereIsNoRoleForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, stub.Config{Delays: usual})
		p := c.start(&link{})
		defer func() { p.end() }()
		time.Sleep(time.Second)
		c.create("p", corev1.RestartPolicyAlways, scratch, "sleep", "300")
		c.pass(time.Minute)
		if s := c.get("p").Status; s.Phase != corev1.PodFailed || len(c.server.Tasks(false)) > 0 {
			t.Errorf("%+v, %v", s, c.events)
		}
	})
}
