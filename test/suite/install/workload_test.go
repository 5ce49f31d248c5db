package install

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/world/basecluster"
)

const (
	helmTimeout = 10 * time.Minute
	// removalTimeout is what `burstlet remove-nodes` may take of that.
	removalTimeout = 8 * time.Minute
	// pause is between two requests of a user of the workload.
	pause = 20 * time.Millisecond
	// requestTimeout bounds one request, on a machine that is busy.
	requestTimeout = 2 * time.Minute
	// most is how many replicas there are under load.
	most = 3
)

// work is what users of burstlet have: a Deployment that may go to virtual nodes and
// whose replicas an autoscaler counts. A request of /cgi-bin/work takes processor time.
const work = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: work, labels: {app: work}}
spec:
  selector: {matchLabels: {app: work}}
  template:
    metadata: {labels: {app: work}}
    spec:
      nodeSelector: {kubernetes.io/hostname: %[1]s}
      tolerations: [{key: virtual-kubelet.io/provider, operator: Exists}]
      terminationGracePeriodSeconds: 1
      containers:
        - name: app
          image: registry.burstlet.test/busybox:1.36
          command:
            - sh
            - -c
            - |
              mkdir -p /srv/cgi-bin
              cat >/srv/cgi-bin/work <<'END'
              #!/bin/sh
              n=0
              while [ $n -lt 30000 ]; do n=$((n+1)); done
              printf 'Content-Type: text/plain\r\n\r\n%%s counted to %%s\n' "$(cat /srv/index.html)" $n
              END
              chmod +x /srv/cgi-bin/work
              echo "$POD_NAME" >/srv/index.html
              echo serving
              exec httpd -f -p 8080 -h /srv
          env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
          ports: [{containerPort: 8080}]
          %[2]s
          resources:
            requests: {cpu: 20m, memory: 16Mi}
          volumeMounts: [{name: srv, mountPath: /srv}]
      volumes: [{name: srv, emptyDir: {}}]
`

const scaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: work}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: work}
  minReplicas: 1
  maxReplicas: 3
  metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}
`

// installed is a release in a cluster, and what runs on its node.
type installed struct {
	*testing.T
	c    *basecluster.Cluster
	helm *helm
	node string
	// namespace is that of the workload.
	namespace string
	// dial reaches the pods of the node, past burstlet.
	dial dialFunc
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// newInstalled is a release that is to be installed, by the name of what it shows.
func newInstalled(t *testing.T, w *world, name, node string, dial dialFunc) *installed {
	h := &helm{program: w.helm, c: w.c, home: t.TempDir(), namespace: releasePrefix + name}
	return &installed{T: t, c: w.c, helm: h, node: node, namespace: workPrefix + name, dial: dial}
}

// begin makes the workload, with one pod, and waits until that is Ready.
func (i *installed) begin() {
	i.Helper()
	i.c.Apply(i, "{apiVersion: v1, kind: Namespace, metadata: {name: "+i.namespace+"}}")
	i.apply(fmt.Sprintf(work, i.node, readiness))
	i.c.AwaitDeployment(i, i.namespace, "work")
}

// apply hands manifests to kubectl, for the workload's namespace.
func (i *installed) apply(manifests string) {
	i.Helper()
	cmd := i.kubectl(i.Context(), "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifests)
	if out, err := cmd.CombinedOutput(); err != nil {
		i.Fatalf("apply manifests: %v: %s", err, out)
	}
}

// kubectl is for the workload's namespace.
func (i *installed) kubectl(ctx context.Context, args ...string) *exec.Cmd {
	return i.c.Command(ctx, append([]string{"--namespace", i.namespace}, args...)...)
}

// endsClean: the release is gone, and no pod of the workload is on its node any more.
func (i *installed) endsClean() {
	i.Helper()
	for _, pod := range i.pods() {
		if pod.Spec.NodeName != "" {
			i.Errorf("pod %s is still on node %s: %+v", pod.Name, pod.Spec.NodeName, pod.Status)
		}
	}
}

// pods are those of the workload that are not ending, by name.
func (i *installed) pods() []corev1.Pod {
	i.Helper()
	list, err := i.c.Client.CoreV1().Pods(i.namespace).List(i.Context(), metav1.ListOptions{LabelSelector: "app=work"})
	if err != nil {
		i.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// awaitNode waits until a virtual node is Ready.
func (i *installed) awaitNode(name string) {
	i.Helper()
	wait.Node(i, i.c.Client, name, basecluster.Patience, "Ready", wait.NodeReady)
}

// awaitServed waits until the node's address is that of a process of burstlet that
// stays: while they change, it is that of the one before for a moment.
func (i *installed) awaitServed() {
	i.Helper()
	basecluster.Await(i, "node "+i.node+" to have the address of a process that stays", func(ctx context.Context) error {
		node, err := i.c.Client.CoreV1().Nodes().Get(ctx, i.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var stay []string
		for _, process := range i.processes() {
			stay = append(stay, process.Status.PodIP)
		}
		if address := internalIP(node); !slices.Contains(stay, address) {
			return fmt.Errorf("the address is %s, the processes' are %q", address, stay)
		}
		return nil
	})
}

// awaitLog waits for the first line of a pod on ECS: awslogs passes it on seconds after
// the pod is ready.
func (i *installed) awaitLog(pod corev1.Pod) {
	i.Helper()
	basecluster.Await(i.T, "the log of pod "+pod.Name, func(ctx context.Context) error {
		out, err := i.kubectl(ctx, "logs", pod.Name).CombinedOutput()
		switch {
		case err != nil:
			return fmt.Errorf("kubectl logs prints %q: %w", out, err)
		case len(out) == 0:
			return errors.New("kubectl logs prints nothing")
		}
		return nil
	})
}

// use does to a pod what people do with kubectl, once: each succeeds at the first try.
func (i *installed) use(pod corev1.Pod) {
	i.Helper()
	if pod.Spec.NodeName != i.node {
		i.Errorf("pod %s is on node %s, want %s", pod.Name, pod.Spec.NodeName, i.node)
	}
	i.awaitServed()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"logs", pod.Name}, "serving\n"},
		{[]string{"exec", pod.Name, "--", "cat", "/srv/index.html"}, pod.Name + "\n"},
	} {
		started := time.Now()
		ctx, cancel := context.WithTimeout(i.Context(), requestTimeout)
		out, err := i.kubectl(ctx, tt.args...).CombinedOutput()
		cancel()
		if err != nil || string(out) != tt.want {
			i.Errorf("kubectl %s prints %q: %v", tt.args[0], out, err)
		}
		i.Logf("kubectl %s answered after %s", tt.args[0], time.Since(started).Round(time.Millisecond))
	}
}

var forwarding = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+) -> 8080`)

// forward asks the pod through kubectl port-forward.
func (i *installed) forward(pod corev1.Pod) {
	i.Helper()
	ctx, cancel := context.WithTimeout(i.Context(), helmTimeout)
	defer cancel()
	cmd := i.kubectl(ctx, "port-forward", pod.Name, ":8080")
	out, err := cmd.StdoutPipe()
	if err != nil {
		i.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		i.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	match := forwarding.FindStringSubmatch(lines.Text())
	if match == nil {
		i.Errorf("kubectl port-forward prints %q", lines.Text())
	} else if got, err := get(ctx, http.DefaultClient, "http://"+match[1]+"/"); err != nil || got != pod.Name+"\n" {
		i.Errorf("through kubectl port-forward: %q, %v", got, err)
	}
	cancel()
	_ = cmd.Wait() // killed
}

func get(ctx context.Context, client *http.Client, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", url, resp.Status)
	}
	return string(body), nil
}

// users ask every pod of the workload without end, each request over a connection of
// its own.
type users struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
	served  atomic.Int64

	mu     sync.Mutex
	failed []error
}

// serveUsers begins to use pods, until end.
func (i *installed) serveUsers(pods []corev1.Pod) *users {
	ctx, cancel := context.WithCancel(context.Background())
	u := &users{cancel: cancel}
	client := &http.Client{Transport: &http.Transport{DialContext: i.dial, DisableKeepAlives: true}}
	for _, pod := range pods {
		u.running.Go(func() { u.ask(ctx, client, pod) })
	}
	return u
}

func (u *users) ask(ctx context.Context, client *http.Client, pod corev1.Pod) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	want := pod.Name + " counted to 30000\n"
	for {
		got, err := get(ctx, client, "http://"+net.JoinHostPort(pod.Status.PodIP, "8080")+"/cgi-bin/work")
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && got == want:
			u.served.Add(1)
		default:
			u.mu.Lock()
			u.failed = append(u.failed, fmt.Errorf("%s answers %q: %w", pod.Name, got, err))
			u.mu.Unlock()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// end returns how many requests were answered, and those that were not.
func (u *users) end() (served int64, failed []error) {
	u.cancel()
	u.running.Wait()
	return u.served.Load(), u.failed
}

// top waits until kubectl top knows a pod.
func (i *installed) top(pod corev1.Pod) {
	i.Helper()
	want := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(pod.Name) + ` +\d+m +\d+Mi`)
	basecluster.Await(i, "kubectl top pod", func(ctx context.Context) error {
		out, err := i.kubectl(ctx, "top", "pod", "--no-headers").CombinedOutput()
		if err != nil || !want.Match(out) {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// scaleUp uses one pod until there are as many as there may be, all of them Ready.
func (i *installed) scaleUp() {
	i.Helper()
	i.apply(scaler)
	u := i.serveUsers(i.pods())
	basecluster.Await(i, "the autoscaler", func(ctx context.Context) error {
		d, err := i.c.Client.AppsV1().Deployments(i.namespace).Get(ctx, "work", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if d.Status.ReadyReplicas == most {
			return nil
		}
		return fmt.Errorf("status is %+v, of the autoscaler %s", d.Status, i.scaled(ctx))
	})
	if served, failed := u.end(); served == 0 || len(failed) > 0 {
		i.Errorf("%d requests were served, failed: %v", served, errors.Join(failed...))
	}
}

// scaled says what the autoscaler thinks.
func (i *installed) scaled(ctx context.Context) string {
	h, err := i.c.Client.AutoscalingV2().HorizontalPodAutoscalers(i.namespace).Get(ctx, "work", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", h.Status)
}
