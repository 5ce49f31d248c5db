package inert

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodsWriteNothing(t *testing.T) {
	dropped, hints := map[string]int{}, map[string]int{}
	pods := Pods{
		Enqueue: func(key string) { hints[key]++ }, Dropped: func(verb string) { dropped[verb]++ },
	}.Pods("ns")
	ctx, pod := t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	do(pods.Delete(ctx, "a", metav1.DeleteOptions{}))
	_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	do(err)
	_, err = pods.Update(ctx, pod, metav1.UpdateOptions{})
	do(err)
	_, err = pods.Patch(ctx, "a", "", nil, metav1.PatchOptions{}, "status")
	do(err)
	_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
	do(err)
	do(pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	for _, verb := range []string{"delete", "update_status", "update", "patch", "create", "delete_collection"} {
		if dropped[verb] != 1 {
			t.Errorf("%s counted %d times", verb, dropped[verb])
		}
	}
	if hints["ns/a"] != 5 {
		t.Errorf("%d hints, want 5", hints["ns/a"])
	}
}
