package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
)

const (
	// startLimit is generous: images are there, but a machine may be busy.
	startLimit = 5 * time.Minute
	// stopLimit is below the pods' grace of 120 s: containers hear SIGTERM and are
	// not killed.
	stopLimit = 110 * time.Second
	// logLimit bounds how long a line takes from a container's shell to kubectl.
	logLimit = 3 * time.Minute
	// readyLimit bounds how long burstlet takes to make its node ready.
	readyLimit = 5 * time.Minute
)

// The apps of the manifests and how many pods they start with.
const (
	hello, helloPods     = "hello", 3
	compute, computePods = "compute", 3
)

// show goes through everything and stops at the first thing that is not as it
// should be.
func (d *demo) show(ctx context.Context) error {
	for _, step := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"A node joins the cluster", d.showNode},
		{"A Deployment of 3 pods", d.showDeployment},
		{"A Job", d.showJob},
		{"What runs", d.showContainers},
		{"More pods, then fewer", d.showScale},
		{"Everything is deleted", d.showDelete},
	} {
		d.out.heading("%s", step.title)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(step.title), err)
		}
	}
	return nil
}

func (d *demo) showNode(ctx context.Context) error {
	err := d.out.await(ctx, "node "+nodeName+" to be Ready", readyLimit, func(ctx context.Context) error {
		node, err := d.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err == nil && wait.NodeReady(node) != nil {
			err = errors.New("it is not")
		}
		return err
	})
	if err != nil {
		return err
	}
	get := []string{"get", "nodes"}
	if d.mine != nil { // there may be many
		get = append(get, nodeName)
	}
	_, err = d.kubectl(ctx, get...)
	return err
}

func (d *demo) showDeployment(ctx context.Context) error {
	if err := d.deploy(ctx); err != nil {
		return err
	}
	pods, err := d.pods(ctx, hello)
	if err != nil {
		return err
	}
	if err := checkPods(pods); err != nil {
		return err
	}
	d.askReach(ctx, pods[0].Name)
	if err := d.showLogs(ctx, hello, pods, greeting); err != nil {
		return err
	}
	if d.ecs && !d.containers || d.unreached {
		return nil // no command can be run where nothing runs, or nothing is reached
	}
	if err := d.showExec(ctx, pods[0].Name); err != nil || !d.containers {
		return err
	}
	return d.showForward(ctx)
}

// showExec looks into a pod: a file of its ConfigMap, and the token of its service
// account, which is there and is not shown.
func (d *demo) showExec(ctx context.Context, pod string) error {
	output, err := d.kubectl(ctx, "exec", pod, "--", "cat", "/etc/greeting/text")
	if err == nil && !strings.Contains(output, "hello from") {
		err = fmt.Errorf("the ConfigMap's file holds %q", output)
	}
	if err != nil {
		return err
	}
	_, err = d.kubectl(ctx, "exec", pod, "--", "ls", "/var/run/secrets/kubernetes.io/serviceaccount")
	return err
}

// deploy applies the Deployment and shows its pods when all of them run.
func (d *demo) deploy(ctx context.Context) error {
	if _, err := d.kubectl(ctx, "apply", "-f", "hello.yaml"); err != nil {
		return err
	}
	if err := d.out.await(ctx, "3 pods Running", startLimit, d.lookAtPods(hello, running(helloPods))); err != nil {
		return err
	}
	_, err := d.kubectl(ctx, "get", "pods", "-o", "wide")
	return err
}

// showLogs shows what the pods of an app wrote, once each has written what it
// should.
func (d *demo) showLogs(ctx context.Context, app string, pods []corev1.Pod, texts func(pod string) []string) error {
	if d.unreached {
		return d.showLogFiles(ctx, app, pods, texts)
	}
	args := []string{"logs", "-l", "app=" + app, "--prefix"}
	err := d.out.await(ctx, "the logs of "+app, logLimit, func(ctx context.Context) error {
		output, err := d.runKubectl(ctx, args...)
		if err == nil {
			err = checkLogs(output, pods, texts)
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = d.kubectl(ctx, args...)
	return err
}

// showLogFiles shows the same where the API server cannot ask burstlet for it: in the
// files that the host's containerd writes. Where pods are simulated there are none.
func (d *demo) showLogFiles(ctx context.Context, app string, pods []corev1.Pod, texts func(pod string) []string) error {
	if !d.real() {
		return nil
	}
	script := "cat /var/log/pods/" + d.namespace + "_" + app + "-*/" + app + "/*.log"
	var output string
	err := d.out.await(ctx, "the logs of "+app, logLimit, func(ctx context.Context) error {
		var err error
		if output, err = combined(ctx, d.host.Command(ctx, "sh", "-c", script), script); err != nil {
			return err
		}
		return checkLogFiles(output, pods, texts)
	})
	if err != nil {
		return err
	}
	d.out.note("On %s itself:", hostName)
	d.out.text("$ " + script + "\n" + output)
	return nil
}

// greeting is what a pod of the Deployment writes.
func greeting(pod string) []string { return []string{"hello from " + pod} }

func (d *demo) showJob(ctx context.Context) error {
	if _, err := d.kubectl(ctx, "apply", "-f", "compute.yaml"); err != nil {
		return err
	}
	if err := d.out.await(ctx, "3 pods Completed", startLimit, d.lookAtPods(compute, succeeded(computePods))); err != nil {
		return err
	}
	err := d.out.await(ctx, "the Job to be Complete", startLimit, func(ctx context.Context) error {
		job, err := d.client.BatchV1().Jobs(d.namespace).Get(ctx, compute, metav1.GetOptions{})
		if err == nil && !isComplete(job) {
			err = fmt.Errorf("%d of %d pods are counted as done", job.Status.Succeeded, computePods)
		}
		return err
	})
	if err != nil {
		return err
	}
	if _, err := d.kubectl(ctx, "get", "jobs,pods", "-l", "app="+compute); err != nil {
		return err
	}
	pods, err := d.pods(ctx, compute)
	if err != nil {
		return err
	}
	return d.showLogs(ctx, compute, pods, func(string) []string { return []string{"computing", "done"} })
}

// showContainers asks containerd itself: three pods run, each a container and
// the one that holds its sandbox.
func (d *demo) showContainers(ctx context.Context) error {
	if d.ecs {
		return d.showTasks(ctx)
	}
	if !d.real() {
		d.out.note("Nothing: the pods are simulated.")
		return nil
	}
	list := []string{"tasks", "list"}
	var output string
	// A pod's sandbox is stopped after the API was told of the end of its containers.
	err := d.out.await(ctx, "what has ended to be gone", stopLimit, func(ctx context.Context) (err error) {
		output, err = d.askCtr(ctx, list...)
		n := strings.Count(output, "RUNNING")
		// Pods of the user's DaemonSets may run beside them.
		if err == nil && n != 2*helloPods && (d.mine == nil || n < 2*helloPods) {
			err = fmt.Errorf("containerd runs %d containers, not %d", n, 2*helloPods)
		}
		return err
	})
	d.showCtr(output, list...)
	return err
}

func (d *demo) showScale(ctx context.Context) error {
	if err := d.scale(ctx, 5, startLimit); err != nil {
		return err
	}
	pods, err := d.pods(ctx, hello)
	if err != nil {
		return err
	}
	// A shell that has not greeted yet does not listen for SIGTERM either.
	if err := d.showLogs(ctx, hello, pods, greeting); err != nil {
		return err
	}
	return d.scale(ctx, 2, stopLimit)
}

func (d *demo) scale(ctx context.Context, replicas int, limit time.Duration) error {
	if _, err := d.kubectl(ctx, "scale", "deployment", hello, fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		return err
	}
	what := fmt.Sprintf("%d pods Running", replicas)
	if err := d.out.await(ctx, what, limit, d.lookAtPods(hello, running(replicas))); err != nil {
		return err
	}
	_, err := d.kubectl(ctx, "get", "pods", "-l", "app="+hello)
	return err
}

func (d *demo) showDelete(ctx context.Context) error {
	if _, err := d.kubectl(ctx, "delete", "-f", "hello.yaml", "-f", "compute.yaml"); err != nil {
		return err
	}
	for _, app := range []string{hello, compute} {
		if err := d.out.await(ctx, "no pod of "+app, stopLimit, d.lookAtPods(app, gone)); err != nil {
			return err
		}
	}
	if _, err := d.kubectl(ctx, "get", "pods"); err != nil {
		return err
	}
	if d.ecs {
		return d.showNoTasks(ctx)
	}
	if !d.real() {
		return nil
	}
	// A pod goes from the API only when nothing of it is left, so this is not
	// waited for.
	lists := [][]string{{"tasks", "list"}, {"containers", "list"}}
	if d.mine != nil {
		lists = [][]string{{"containers", "list", `labels."io.kubernetes.pod.namespace"==` + d.namespace}}
	}
	for _, list := range lists {
		output, err := d.ctr(ctx, list...)
		if err != nil {
			return err
		}
		if n := rows(output); n != 0 {
			return fmt.Errorf("containerd still has %d %s", n, list[0])
		}
	}
	return nil
}

// stay leaves a cluster to play with until ctx ends.
func (d *demo) stay(ctx context.Context) error {
	d.out.heading("Now it is yours")
	if err := d.deploy(ctx); err != nil {
		return err
	}
	d.out.text("\n" + d.hints())
	<-ctx.Done()
	return nil
}

// logging is a command that reads a container's log.
const logging = "kubectl logs -f deployment/hello\n"

// reaching are commands that end in a container.
const reaching = logging + `kubectl exec -it deployment/hello -- sh
kubectl port-forward deployment/hello 8080
`

// hints tell how to play with the cluster.
func (d *demo) hints() string {
	text := "export KUBECONFIG=" + d.kubeconfig + "\n"
	if _, err := exec.LookPath("kubectl"); err != nil {
		text += "alias kubectl=" + d.kubectlPath + "\n"
	}
	text += "cd " + d.dir + `

kubectl get nodes,pods -o wide
` + reaching + `kubectl scale deployment hello --replicas=10
kubectl apply -f compute.yaml
tail -f burstlet.log
`
	switch {
	case d.unreached:
		text = strings.Replace(text, reaching, "", 1)
	case d.ecs && !d.containers: // no command can be run where nothing runs
		text = strings.Replace(text, reaching, logging, 1)
	}
	return text + "\nCtrl-C ends it and removes everything."
}
