package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lookAtPods returns a look at the pods of an app; its error says what they are
// instead.
func (c *cluster) lookAtPods(app string, want func([]corev1.Pod) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := c.pods(ctx, app)
		if err == nil && !want(pods) {
			err = errors.New(summary(pods))
		}
		return err
	}
}

func (c *cluster) pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	list, err := c.client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return list.Items, nil
}

// summary counts pods by their phase: "2 Running, 1 Pending".
func summary(pods []corev1.Pod) string {
	counts := map[string]int{}
	for i := range pods {
		counts[phase(&pods[i])]++
	}
	if len(counts) == 0 {
		return "no pods"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(parts, ", ")
}

// phase is the phase, or more where there is more to tell.
func phase(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "Terminating"
	case pod.Status.Phase == corev1.PodRunning && !isReady(pod):
		return "Running, not ready"
	default:
		return string(pod.Status.Phase)
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// running wants exactly n pods, all of them running and ready.
func running(n int) func([]corev1.Pod) bool { return all(n, string(corev1.PodRunning)) }

// succeeded wants exactly n pods, all of them done.
func succeeded(n int) func([]corev1.Pod) bool { return all(n, string(corev1.PodSucceeded)) }

// gone wants no pod.
func gone(pods []corev1.Pod) bool { return len(pods) == 0 }

func all(n int, want string) func([]corev1.Pod) bool {
	return func(pods []corev1.Pod) bool {
		return len(pods) == n && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return phase(&p) != want })
	}
}

// checkPods finds what is wrong with pods of which each container should have
// been started once, on our node, with an address of its own.
func checkPods(pods []corev1.Pod) error {
	var errs []error
	addresses := map[string]string{}
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName != nodeName {
			errs = append(errs, fmt.Errorf("pod %s is on node %q, not %s", p.Name, p.Spec.NodeName, nodeName))
		}
		if other := addresses[p.Status.PodIP]; p.Status.PodIP == "" || other != "" {
			errs = append(errs, fmt.Errorf("pod %s has no address of its own: %q (%s)", p.Name, p.Status.PodIP, other))
		}
		addresses[p.Status.PodIP] = p.Name
		for _, c := range p.Status.ContainerStatuses {
			if c.RestartCount != 0 {
				errs = append(errs, fmt.Errorf("container %s of pod %s was restarted %d times", c.Name, p.Name, c.RestartCount))
			}
		}
	}
	return errors.Join(errs...)
}

// checkLogs finds the texts that the log of each pod lacks. Lines are those of
// "kubectl logs --prefix": [pod/NAME/CONTAINER] TEXT.
func checkLogs(output string, pods []corev1.Pod, texts func(pod string) []string) error {
	lines := strings.Split(output, "\n")
	var errs []error
	for _, pod := range pods {
		for _, text := range texts(pod.Name) {
			line := fmt.Sprintf("[pod/%s/%s] %s", pod.Name, pod.Spec.Containers[0].Name, text)
			if !slices.Contains(lines, line) {
				errs = append(errs, fmt.Errorf("the log of pod %s lacks the line %q", pod.Name, text))
			}
		}
	}
	return errors.Join(errs...)
}

// checkLogFiles finds the texts that files of logs lack. Lines are those that the CRI
// has: TIME STREAM TAG TEXT. They do not tell the pod; a text of several pods is there
// once for each.
func checkLogFiles(output string, pods []corev1.Pod, texts func(pod string) []string) error {
	wanted, found := map[string]int{}, map[string]int{}
	for _, pod := range pods {
		for _, text := range texts(pod.Name) {
			wanted[text]++
		}
	}
	for _, line := range strings.Split(output, "\n") {
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			found[fields[3]]++
		}
	}
	var errs []error
	for _, text := range slices.Sorted(maps.Keys(wanted)) {
		if found[text] < wanted[text] {
			errs = append(errs, fmt.Errorf("the logs have the line %q %d times, not %d", text, found[text], wanted[text]))
		}
	}
	return errors.Join(errs...)
}

// isComplete says that the controller counted every pod of a Job as done.
func isComplete(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
	})
}

// rows is how many lines a table has below its head.
func rows(table string) int { return strings.Count(strings.TrimSpace(table), "\n") }
