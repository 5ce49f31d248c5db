package objectcache

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// BenchmarkObjects is what a decision costs on a node of 10,000 pods that have
// the volume of their service account, and what the Cache holds of a pod.
func BenchmarkObjects(b *testing.B) {
	const pods = 10_000
	c := New(
		Config{Client: fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ca"}})},
	)
	list := make([]*corev1.Pod, pods)
	for i := range list {
		list[i] = tokenPod(fmt.Sprint(i), hour)
		list[i].UID = types.UID(fmt.Sprint(i))
		list[i].Spec.Volumes[0].Projected.Sources = append(list[i].Spec.Volumes[0].Projected.Sources, corev1.VolumeProjection{
			ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "ca"}},
		})
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, pod := range list {
		c.Set(pod)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	known := make(chan struct{}, 1)
	c.changed = func(types.UID) {
		select {
		case known <- struct{}{}:
		default:
		}
	}
	go func() { ended <- c.Run(ctx) }()
	for len(c.Objects(list[0]).ConfigMaps) == 0 {
		<-known
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		c.Set(list[i%pods])
		c.Objects(list[i%pods])
		i++
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/pods, "B/pod")
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
