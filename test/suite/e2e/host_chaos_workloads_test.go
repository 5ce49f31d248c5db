package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
)

// awaitStart waits until a container begins, so that what is disturbed is at work, however
// slow the machine; not for long, for all may have begun.
func (x *chaos) awaitStart(t *testing.T) {
	t.Helper()
	count := func() int {
		t.Helper()
		begun := 0
		for _, pods := range x.ran(t) {
			begun += len(pods)
		}
		return begun
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(x.slow)*5*time.Second)
	defer cancel()
	before := count()
	_ = wait.Until(ctx, "a container that begins", func(context.Context) error { // see above
		if count() == before {
			return errors.New("none begins")
		}
		return nil
	})
}

// beginOrdered makes the StatefulSet.
func (x *chaos) beginOrdered(t *testing.T) {
	t.Helper()
	labels := map[string]string{"app": chaosOrdered}
	pod := scenario{name: chaosOrdered, policy: "Always", argv: forever, token: true}.pod(x.namespace, x.n.name)
	noted(chaosOrdered)(pod)
	_, err := x.c.client.AppsV1().StatefulSets(x.namespace).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: chaosOrdered},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &x.members, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// rollOrdered changes its template, so that every pod is replaced by one of the same name.
func (x *chaos) rollOrdered(t *testing.T, version int) {
	t.Helper()
	sets := x.c.client.AppsV1().StatefulSets(x.namespace)
	wait.For(t, patience, "roll out the StatefulSet", func() error {
		s, err := sets.Get(t.Context(), chaosOrdered, metav1.GetOptions{})
		if err != nil {
			return err
		}
		setVersion(&s.Spec.Template, version)
		_, err = sets.Update(t.Context(), s, metav1.UpdateOptions{})
		return err
	})
}

// rests waits until the rollouts are complete and the Jobs have succeeded, and the host has
// what the API has, once.
func (x *chaos) rests(t *testing.T) {
	t.Helper()
	limit := time.Duration(2*x.slow) * patience
	for _, job := range x.jobs {
		x.jobSucceeds(t, job, x.ofJob)
	}
	x.complete(t, limit)
	wait.For(t, limit, "the rollout of the StatefulSet completes", func() error {
		set, err := x.c.client.AppsV1().StatefulSets(x.namespace).Get(t.Context(), chaosOrdered, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := set.Status; s.ObservedGeneration < set.Generation || s.CurrentRevision != s.UpdateRevision ||
			s.ReadyReplicas != x.members || s.Replicas != x.members {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	wait.For(t, limit, "the host has what the API has, once", func() error {
		return errors.Join(x.sameAsAPI(t, x.h.count, neverRestarted), x.orderedRun(t))
	})
}

// orderedRun is nil when the host has each pod of the StatefulSet once.
func (x *chaos) orderedRun(t *testing.T) error {
	t.Helper()
	list, err := x.c.client.CoreV1().Pods(x.namespace).List(
		t.Context(), metav1.ListOptions{LabelSelector: "app=" + chaosOrdered},
	)
	if err != nil {
		return err
	}
	sandboxes, running := x.h.count(t)
	for i := range list.Items {
		pod := &list.Items[i]
		if err := errors.Join(phaseIs(corev1.PodRunning, ready)(pod), neverRestarted(pod)); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		if sandboxes[pod.UID] != 1 || running[pod.UID] != 1 {
			return fmt.Errorf(
				"pod %s has %d sandboxes and %d running containers", pod.Name, sandboxes[pod.UID], running[pod.UID],
			)
		}
	}
	return nil
}

// noneRanTwice checks that no pod's container began twice, and that one of each pod that the
// API has did, and returns how many began by workload and pod.
func (x *chaos) noneRanTwice(t *testing.T) map[string]map[string]int {
	t.Helper()
	ran := x.ran(t)
	list, err := x.c.client.CoreV1().Pods(x.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		workload := pod.Labels["app"]
		if pod.Labels[batchv1.JobNameLabel] != "" {
			workload = chaosJobs
		}
		if ran[workload][string(pod.UID)] == 0 {
			t.Errorf("pod %s is %s, and its container never ran", pod.Name, pod.Status.Phase)
		}
	}
	for workload, pods := range ran {
		for uid, times := range pods {
			if times > 1 {
				t.Errorf("the container of pod %s of %s ran %d times", uid, workload, times)
			}
		}
	}
	// A pod more is one that was made in the place of another.
	if want := len(x.jobs) * int(x.ofJob); len(ran[chaosJobs]) != want {
		t.Errorf("%d pods of Jobs ran, want %d", len(ran[chaosJobs]), want)
	}
	return ran
}

// ran is what containers noted: how many began, by workload and pod.
func (x *chaos) ran(t *testing.T) map[string]map[string]int {
	t.Helper()
	out, err := x.h.Command(t.Context(), "sh", "-c", "[ ! -e $1 ] || cat $1", "sh", noteDir+"/ran").Output()
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]map[string]int{chaosWeb: {}, chaosOrdered: {}, chaosJobs: {}}
	for line := range strings.Lines(string(out)) {
		workload, uid, _ := strings.Cut(strings.TrimSpace(line), " ")
		if ran[workload] == nil || uid == "" {
			t.Fatalf("a container noted %q", line)
		}
		ran[workload][uid]++
	}
	return ran
}

// deletes has the workloads go, with their pods.
func (x *chaos) deletes(t *testing.T) {
	t.Helper()
	background := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	errs := []error{
		x.c.client.AppsV1().Deployments(x.namespace).Delete(t.Context(), chaosWeb, background),
		x.c.client.AppsV1().StatefulSets(x.namespace).Delete(t.Context(), chaosOrdered, background),
	}
	for _, job := range x.jobs {
		errs = append(errs, x.c.client.BatchV1().Jobs(x.namespace).Delete(t.Context(), job, background))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// allGone waits until neither the API nor the host has any of the pods.
func (x *chaos) allGone(t *testing.T) {
	t.Helper()
	wait.For(t, time.Duration(x.slow)*patience, "all is gone", func() error {
		list, err := x.c.client.CoreV1().Pods(x.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("%d pods in the API", len(list.Items))
		}
		left := slices.DeleteFunc(x.h.sandboxes(t, ""), func(s *runtimeapi.PodSandbox) bool {
			return s.Metadata.Namespace != x.namespace
		})
		if len(left) > 0 {
			return fmt.Errorf("%d sandboxes on the host", len(left))
		}
		return nil
	})
}
