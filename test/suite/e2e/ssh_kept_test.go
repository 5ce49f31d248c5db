package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// sshNode is a node whose pods run on a host over SSH, and that host seen past SSH.
type sshNode struct {
	*node
	c     *cluster
	h     *containerdHost
	watch *hostWatch
}

// newSSHNode starts a host and its node, and looks at the host from then on.
func newSSHNode(t *testing.T, c *cluster, name string, options ...func(*remotehost.Config)) *sshNode {
	t.Helper()
	h := newContainerdHost(t, options...)
	s := &sshNode{node: newNode(t, c, name, h.section()), c: c, h: h}
	s.watch = watchHost(t, h)
	s.start()
	s.ready()
	return s
}

// seenHost is what a host has at one moment, by pod.
type seenHost struct {
	sandboxes  map[types.UID][]*runtimeapi.PodSandbox
	containers map[types.UID][]*runtimeapi.Container
}

// see lists what the host has.
func (h *containerdHost) see(ctx context.Context) (seenHost, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	seen := seenHost{map[types.UID][]*runtimeapi.PodSandbox{}, map[types.UID][]*runtimeapi.Container{}}
	sandboxes, err := h.cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return seen, fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := h.cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return seen, fmt.Errorf("list containers: %w", err)
	}
	for _, s := range sandboxes.Items {
		uid := types.UID(s.Metadata.Uid)
		seen.sandboxes[uid] = append(seen.sandboxes[uid], s)
	}
	for _, c := range containers.Containers {
		uid := types.UID(c.Labels["io.kubernetes.pod.uid"])
		seen.containers[uid] = append(seen.containers[uid], c)
	}
	return seen, nil
}

// ready are the sandboxes of a pod that are.
func (s seenHost) ready(uid types.UID) (ready []*runtimeapi.PodSandbox) {
	for _, sandbox := range s.sandboxes[uid] {
		if sandbox.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			ready = append(ready, sandbox)
		}
	}
	return ready
}

// running are the containers of a pod that run, by name.
func (s seenHost) running(uid types.UID) map[string][]*runtimeapi.Container {
	running := map[string][]*runtimeapi.Container{}
	for _, c := range s.containers[uid] {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			running[c.Metadata.Name] = append(running[c.Metadata.Name], c)
		}
	}
	return running
}

// doubled says which pods the host has twice.
func (s seenHost) doubled() map[types.UID]string {
	found := map[types.UID]string{}
	for uid := range s.sandboxes {
		if n := len(s.ready(uid)); n > 1 {
			found[uid] = fmt.Sprintf("%d ready sandboxes", n)
		}
	}
	for uid := range s.containers {
		for name, running := range s.running(uid) {
			if len(running) > 1 {
				found[uid] = fmt.Sprintf("%d running containers %s", len(running), name)
			}
		}
	}
	return found
}

// hostWatch looks at a host all the time for what must never be: a pod that it
// has twice.
type hostWatch struct {
	wg      sync.WaitGroup
	mu      sync.Mutex
	doubled map[types.UID]string
	looks   int
}

// watchHost looks until the test ends, which it fails for what it saw.
func watchHost(t *testing.T, h *containerdHost) *hostWatch {
	ctx, stop := context.WithCancel(context.Background())
	w := &hostWatch{doubled: map[types.UID]string{}}
	t.Cleanup(func() {
		stop()
		w.wg.Wait()
		for uid, what := range w.doubled {
			t.Errorf("pod %s once had %s", uid, what)
		}
		if w.looks == 0 {
			t.Error("nobody could look at the host")
		}
		t.Logf("the host was looked at %d times", w.looks)
	})
	w.wg.Go(func() {
		tick := time.NewTicker(150 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			seen, err := h.see(ctx)
			if err != nil {
				continue // containerd is down, or the host: nothing starts either
			}
			w.mu.Lock()
			maps.Copy(w.doubled, seen.doubled())
			w.looks++
			w.mu.Unlock()
		}
	})
	return w
}

// bound are the pods of the node.
func (s *sshNode) bound(ctx context.Context) (map[types.UID]*corev1.Pod, error) {
	list, err := s.c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", s.name).String(),
	})
	if err != nil {
		return nil, err
	}
	pods := map[types.UID]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].UID] = &list.Items[i]
	}
	return pods, nil
}

// mustBound is bound for tests that cannot go on without.
func (s *sshNode) mustBound(t *testing.T) map[types.UID]*corev1.Pod {
	t.Helper()
	pods, err := s.bound(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

// right waits until the pods that there were when the way to the host was back
// are gone, or are what the API says, afterwards.
func (s *sshNode) right(t *testing.T, back time.Time) {
	t.Helper()
	before := s.mustBound(t)
	wait.For(t, time.Until(back.Add(afterwards())), "the API says what is so", func() error {
		pods, err := s.bound(t.Context())
		if err != nil {
			return err
		}
		seen, err := s.h.see(t.Context())
		if err != nil {
			return err
		}
		for uid, pod := range pods {
			if before[uid] == nil {
				continue
			}
			err := s.isSo(t.Context(), pod, seen)
			if errors.Is(err, errStarting) {
				err = nil // that is so
			}
			if err != nil {
				return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
		}
		return nil
	})
	t.Logf("statuses are right %s after the way was back", time.Since(back).Round(100*time.Millisecond))
}

// errStarting is of a pod that does not run yet, which the API says as well.
var errStarting = errors.New("it is starting")

// isSo is nil when what the API says of a pod is what the host has of it. Errors:
// errStarting when that is nothing yet.
func (s *sshNode) isSo(ctx context.Context, pod *corev1.Pod, seen seenHost) error {
	if pod.DeletionTimestamp != nil {
		return errors.New("it is being deleted")
	}
	running, alive := seen.running(pod.UID), 0
	for _, status := range pod.Status.ContainerStatuses {
		has := running[status.Name]
		switch {
		case status.State.Running == nil && len(has) > 0:
			return fmt.Errorf("container %s runs, but it is said: %s", status.Name, states(&pod.Status))
		case status.State.Running == nil:
			continue
		case len(has) != 1:
			return fmt.Errorf("container %s has %d running, but it is said: %s", status.Name, len(has), states(&pod.Status))
		case !strings.HasSuffix(status.ContainerID, has[0].Id) || status.RestartCount != int32(has[0].Metadata.Attempt):
			return fmt.Errorf("attempt %d of container %s runs with id %s, but it is said: %s %s",
				has[0].Metadata.Attempt, status.Name, has[0].Id, status.ContainerID, states(&pod.Status))
		}
		alive++
	}
	if ended(&pod.Status) {
		return nil
	}
	if alive == 0 && pod.Status.Phase == corev1.PodPending {
		return fmt.Errorf("%w: %s", errStarting, states(&pod.Status))
	}
	if alive == len(pod.Spec.Containers) {
		if err := isReady(pod); err != nil {
			return err
		}
	}
	return s.hasAddress(ctx, pod, seen)
}

// hasAddress is nil when a pod's address is that of its sandbox.
func (s *sshNode) hasAddress(ctx context.Context, pod *corev1.Pod, seen seenHost) error {
	ready := seen.ready(pod.UID)
	if len(ready) != 1 {
		return fmt.Errorf("%d ready sandboxes", len(ready))
	}
	reply, err := s.h.cri.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: ready[0].Id})
	if err != nil {
		return fmt.Errorf("look at the sandbox: %w", err)
	}
	if ip := reply.GetStatus().GetNetwork().GetIp(); ip != pod.Status.PodIP {
		return fmt.Errorf("its address is %s, but it is said: %s", ip, pod.Status.PodIP)
	}
	return nil
}

// wellKept waits until the host has what the API has, once, and nothing else: no
// sandbox, container, volume, mount, log, link, cgroup or address of a pod that is
// gone.
func (s *sshNode) wellKept(t *testing.T) {
	t.Helper()
	begin := time.Now()
	// What is left of logs is looked for once a minute.
	wait.For(t, patience, "the host has what the API has, and nothing else", func() error {
		pods, err := s.bound(t.Context())
		if err != nil {
			return err
		}
		seen, err := s.h.see(t.Context())
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if err := s.isSo(t.Context(), pod, seen); err != nil {
				return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
		}
		left, err := s.h.orphans(pods, seen)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left on the host: %q", left)
		}
		return err
	})
	t.Logf("all is well kept %s later", time.Since(begin).Round(100*time.Millisecond))
}

// inUse is true of a sandbox that is ready or has a container: after a reboot the
// old one holds what kubectl logs --previous shows, as a kubelet's does.
func (s seenHost) inUse(uid types.UID, sandbox *runtimeapi.PodSandbox) bool {
	return sandbox.State == runtimeapi.PodSandboxState_SANDBOX_READY ||
		slices.ContainsFunc(s.containers[uid], func(c *runtimeapi.Container) bool { return c.PodSandboxId == sandbox.Id })
}

// orphans are what the host has of pods that are not there.
func (h *containerdHost) orphans(pods map[types.UID]*corev1.Pod, seen seenHost) ([]string, error) {
	var left []string
	for uid, sandboxes := range seen.sandboxes {
		if pods[uid] == nil || len(sandboxes) > 2 {
			left = append(left, fmt.Sprintf("%d sandboxes of %s", len(sandboxes), uid))
		}
		for _, sandbox := range sandboxes {
			if len(sandboxes) > 1 && !seen.inUse(uid, sandbox) {
				left = append(left, "an empty sandbox of "+string(uid))
			}
		}
	}
	for uid, containers := range seen.containers {
		if pods[uid] == nil {
			left = append(left, fmt.Sprintf("%d containers of %s", len(containers), uid))
		}
	}
	for _, look := range []func(map[types.UID]*corev1.Pod, seenHost) ([]string, error){
		h.orphanedVolumes, h.orphanedLogs, h.orphanedCgroups, h.orphanedAddresses,
	} {
		more, err := look(pods, seen)
		if err != nil {
			return nil, err
		}
		left = append(left, more...)
	}
	return left, nil
}

const (
	podsOnHost = "/var/lib/burstlet/pods"
	logsOnHost = "/var/log/pods"
)

// orphanedVolumes are directories and mounts.
func (h *containerdHost) orphanedVolumes(pods map[types.UID]*corev1.Pod, _ seenHost) ([]string, error) {
	var left []string
	dirs, err := h.names(podsOnHost)
	if err != nil {
		return nil, err
	}
	for _, uid := range dirs {
		if pods[types.UID(uid)] == nil {
			left = append(left, podsOnHost+"/"+uid)
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", h.Pid()))
	if err != nil {
		return nil, fmt.Errorf("read the host's mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		point := strings.Fields(line)[4]
		if below, ok := strings.CutPrefix(point, podsOnHost+"/"); ok && pods[types.UID(strings.Split(below, "/")[0])] == nil {
			left = append(left, "mount "+point)
		}
	}
	return left, nil
}

// orphanedLogs are directories of logs, and links to logs that are not there.
func (h *containerdHost) orphanedLogs(pods map[types.UID]*corev1.Pod, _ seenHost) ([]string, error) {
	var left []string
	dirs, err := h.names(logsOnHost)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if pods[types.UID(dir[strings.LastIndex(dir, "_")+1:])] == nil {
			left = append(left, logsOnHost+"/"+dir)
		}
	}
	links, err := h.names("/var/log/containers")
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		target, err := os.Readlink(h.Path("/var/log/containers/" + link))
		if err != nil {
			return nil, fmt.Errorf("read a link to a log: %w", err)
		}
		if _, err := os.Lstat(h.Path(target)); err != nil {
			left = append(left, "link "+link)
		}
	}
	return left, nil
}

// orphanedCgroups are those of pods that are not there, and those with processes of
// containers that do not run, which CRI does not know. An empty one is what runc leaves
// when containerd is killed while it starts a container: it goes with its pod.
func (h *containerdHost) orphanedCgroups(pods map[types.UID]*corev1.Pod, seen seenHost) ([]string, error) {
	known := seen.knownOf(pods)
	found, err := filepath.Glob("/sys/fs/cgroup/*/" + h.Cgroup() + "/burstlet")
	if err != nil {
		return nil, err
	}
	var left []string
	for _, top := range append(found, "/sys/fs/cgroup/"+h.Cgroup()+"/burstlet") {
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && !entry.IsDir() {
				return nil // cgroups come and go
			}
			if err != nil {
				return err
			}
			runs := runningIn(path)
			uid, isPod := strings.CutPrefix(entry.Name(), "pod")
			ofContainer := strings.HasPrefix(filepath.Base(filepath.Dir(path)), "pod") && !known[entry.Name()]
			if isPod && pods[types.UID(uid)] == nil || ofContainer && runs != "" {
				left = append(left, path+runs)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look at the host's cgroups: %w", err)
		}
	}
	return left, nil
}

// knownOf are the ids of what CRI says runs of pods.
func (s seenHost) knownOf(pods map[types.UID]*corev1.Pod) map[string]bool {
	known := map[string]bool{}
	for uid := range pods {
		for _, sandbox := range s.ready(uid) {
			known[sandbox.Id] = true
		}
		for _, running := range s.running(uid) {
			known[running[0].Id] = true
		}
	}
	return known
}

// runningIn says what runs in a cgroup.
func runningIn(cgroup string) string {
	pids, err := os.ReadFile(filepath.Join(cgroup, "cgroup.procs"))
	if err != nil {
		return fmt.Sprintf(" (%v)", err)
	}
	var said strings.Builder
	for _, pid := range strings.Fields(string(pids)) {
		words, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err == nil {
			fmt.Fprintf(&said, " %s %q", pid, words)
		}
	}
	return said.String()
}

// orphanedAddresses are those that the network has given to sandboxes that are not
// there.
func (h *containerdHost) orphanedAddresses(_ map[types.UID]*corev1.Pod, seen seenHost) ([]string, error) {
	var left []string
	files, err := filepath.Glob(h.Path("/var/lib/cni/networks/*/*.*.*.*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read who has an address: %w", err)
		}
		id, _, _ := bytes.Cut(bytes.TrimSpace(content), []byte("\n"))
		if !seen.has(strings.TrimSpace(string(id))) {
			left = append(left, "address "+filepath.Base(file))
		}
	}
	return left, nil
}

// has is true of the id of a sandbox.
func (s seenHost) has(id string) bool {
	for _, sandboxes := range s.sandboxes {
		if slices.ContainsFunc(sandboxes, func(sandbox *runtimeapi.PodSandbox) bool { return sandbox.Id == id }) {
			return true
		}
	}
	return false
}

// names lists a directory of the host; none where there is no such directory.
func (h *containerdHost) names(dir string) ([]string, error) {
	entries, err := os.ReadDir(h.Path(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look at the host: %w", err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}
