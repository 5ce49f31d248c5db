package cri

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
)

// A node lists all of its pods, whatever their authors write on them.
func TestAnnotationsDoNotKeepPodsFromBeingListed(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	const pods110 = 110
	for i := range pods110 {
		pod := testPod(fmt.Sprint("u", i))
		pod.Annotations = map[string]string{"kubernetes.io/ingress-bandwidth": "10M", "note": strings.Repeat("x", 200<<10)}
		pod.Labels = map[string]string{"app": "x"}
		for n := range 3000 {
			pod.Labels[fmt.Sprint("label-", n)] = strings.Repeat("v", 60)
		}
		must(t, pods{r}.Launch(t.Context(), t.Context(), launchSpec(pod, 0)))
	}
	facts, err := pods{r}.List(t.Context())
	if err != nil || len(facts) != pods110 {
		t.Fatalf("%d pods, %v", len(facts), err)
	}
	for _, box := range w.fake.Sandboxes() {
		config := &runtimeapi.PodSandboxConfig{Labels: box.GetLabels(), Annotations: box.GetAnnotations()}
		if n := proto.Size(config); n > 32<<10 {
			t.Errorf("the runtime tells %d bytes in each listing", n)
		}
		if box.GetAnnotations()["kubernetes.io/ingress-bandwidth"] != "10M" || box.GetLabels()["app"] != "x" {
			t.Errorf("what a network plugin reads is left out: %v", maps.Keys(box.GetAnnotations()))
		}
	}
}

func TestATerminationMessagePathIsAPath(t *testing.T) {
	pod := testPod("u1")
	c := pod.Spec.Containers[0]
	c.TerminationMessagePath = "/" + strings.Repeat("x", 4095)
	_, _, err := configsOf(t, pod, c)
	wantClass(t, err, backend.ErrInvalid)
}
