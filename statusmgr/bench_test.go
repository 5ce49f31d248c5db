package statusmgr

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

type noAPI struct{}

func (noAPI) Pods(string) corev1client.PodInterface { panic("adoption called the API") }

// BenchmarkAdopt is what a restart costs here: 10,000 pods whose status the API
// holds already, each observed and set once, and nothing written.
func BenchmarkAdopt(b *testing.B) {
	const pods = 10_000
	s := running()
	list := make([]*corev1.Pod, pods)
	for i := range list {
		pod := testPod(fmt.Sprint(i), types.UID(fmt.Sprint(i)))
		pod.ResourceVersion = "7"
		want, err := prepare(pod, &pod.Status, &s, time.Now())
		if err != nil {
			b.Fatal(err)
		}
		merged, _ := merge(&pod.Status, want, true, time.Now())
		pod.Status = *merged
		list[i] = pod
	}
	for b.Loop() {
		m := New(Config{Client: noAPI{}, Safety: SafetyFunc(func(types.UID) bool { return true })})
		for _, pod := range list {
			m.Observe(pod)
			m.SetStatus(pod, s)
		}
		if err := m.Flush(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
