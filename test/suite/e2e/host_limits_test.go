package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// hostLimits are about what pods may use, and what is said of what they do.
var hostLimits = []row[*hostLife]{
	{
		"QoS Guaranteed",
		qos(
			corev1.PodQOSGuaranteed, limits("250m", "64Mi"),
			cgroupValues{"cpu/cpu.cfs_quota_us": 25000, "cpu/cpu.shares": 256, "memory/memory.limit_in_bytes": 64 << 20},
		),
	},
	{
		"QoS Burstable",
		qos(
			corev1.PodQOSBurstable, requests("500m", "32Mi"), cgroupValues{"cpu/cpu.cfs_quota_us": -1, "cpu/cpu.shares": 512},
		),
	},
	{
		"QoS BestEffort",
		qos(corev1.PodQOSBestEffort, func(*corev1.Pod) {}, cgroupValues{"cpu/cpu.cfs_quota_us": -1, "cpu/cpu.shares": 2}),
	},
	{"resources of the pod", podResources},
	{"PIDs limit", manyProcesses},
	{"resize in place", resizeInPlace},
	{"resize with a restart", resizeRestarts},
	{"resize below what is used", resizeBelowUse},
	{"OOM", outOfMemory},
	{"restart policies", restarts},
	{"ephemeral storage", ephemeralStorage},
	{"statistics", statistics},
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
}

func limits(cpu, memory string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Limits = resources(cpu, memory) }
}

func requests(cpu, memory string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests = resources(cpu, memory) }
}

// cgroupValues are those of a pod's cgroup, by controller and file of version 1.
type cgroupValues map[string]int64

// cgroup is the pod's, below every controller's root. systemd nests slices by their names.
func (h *hostView) cgroup(pod *corev1.Pod) string {
	parts := []string{"burstlet"}
	if pod.Status.QOSClass != corev1.PodQOSGuaranteed {
		parts = append(parts, strings.ToLower(string(pod.Status.QOSClass)))
	}
	parts = append(parts, "pod"+string(pod.UID))
	if !h.systemd {
		return path.Join(parts...)
	}
	var slices []string
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "-", "_")
		slices = append(slices, strings.Join(parts[:i+1], "-")+".slice")
	}
	return path.Join(slices...)
}

// cgroupValue is a file of a cgroup, named as in version 1, on either version.
func (l *hostLife) cgroupValue(controller, group, file string) (int64, error) {
	const script = `cd /sys/fs/cgroup; [ ! -e cgroup.controllers ] || exec cat "$1"; echo v1; exec cat "$2"`
	ctx, cancel := context.WithTimeout(l.Context(), l.patience())
	defer cancel()
	out, err := l.h.Command(ctx, "sh", "-c", script, "sh",
		path.Join(group, unifiedNames[file]), path.Join(controller, group, file)).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w: %s", file, group, err, out)
	}
	if first, ok := strings.CutPrefix(string(out), "v1\n"); ok {
		return strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	}
	return unifiedValue(file, string(out))
}

// cgroupHas waits until the kernel holds the pod to the value, named and counted as
// in version 1.
func (l *hostLife) cgroupHas(pod *corev1.Pod, controller, file string, want int64) {
	l.Helper()
	pod, err := l.pods().Get(l.Context(), pod.Name, metav1.GetOptions{})
	l.must(err)
	wait.For(l.T, l.patience(), file+" of the pod's cgroup", func() error {
		got, err := l.cgroupValue(controller, l.h.cgroup(pod), file)
		switch {
		case err != nil:
			return err
		case file == "cpu.shares" && got == sharesOf(weightOf(want)): // coarser in version 2
		case got != want:
			return fmt.Errorf("%d, want %d", got, want)
		}
		return nil
	})
}

// qos is a pod of a class: where its cgroup stands, and what holds for it.
func qos(class corev1.PodQOSClass, change func(*corev1.Pod), want cgroupValues) func(*hostLife) {
	return func(l *hostLife) {
		l.create(l.pod(shell("echo limit $("+memoryLimit+")"), change))
		pod := l.until("Ready", isReady)
		if pod.Status.QOSClass != class {
			l.Errorf("the class is %s", pod.Status.QOSClass)
		}
		for file, value := range want {
			controller, name := path.Split(file)
			l.cgroupHas(pod, path.Clean(controller), name, value)
		}
		l.cgroupHas(pod, "pids", "pids.max", pidsLimit)
		if memory := pod.Spec.Containers[0].Resources.Limits.Memory().Value(); memory > 0 {
			l.says("app", fmt.Sprintf("limit %d", memory))
		}
	}
}

// podResources: containers share what the pod has, and the kernel tells each of it.
func podResources(l *hostLife) {
	l.create(l.pod(shell("echo limit $("+memoryLimit+")"), func(pod *corev1.Pod) {
		pod.Spec.Resources = &corev1.ResourceRequirements{
			Requests: resources("100m", "32Mi"), Limits: resources("300m", "96Mi"),
		}
		pod.Spec.Containers = append(
			pod.Spec.Containers, corev1.Container{Name: "beside", Image: imageOf, Command: []string{"sleep", "1000"}},
		)
	}))
	pod := l.until("Ready", isReady)
	l.cgroupHas(pod, "cpu", "cpu.cfs_quota_us", 30000)
	l.cgroupHas(pod, "memory", "memory.limit_in_bytes", 96<<20)
	l.says("app", fmt.Sprintf("limit %d", 96<<20))
}

// manyProcesses: a pod cannot have more than the node allows, and lives on.
func manyProcesses(l *hostLife) {
	// Nothing that runs on holds the pipe, and the last process is none more.
	l.create(
		l.pod(
			[]string{
				"sh", "-c",
				`sh -c 'i=0; while [ $i -lt 200 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done' 2>&1 | grep -o "can't fork"; exec sleep 1000`,
			},
		),
	)
	pod := l.until("Ready", isReady)
	l.says("app", "can't fork")
	used, err := l.cgroupValue("pids", l.h.cgroup(pod), "pids.current")
	if err != nil || used > pidsLimit {
		l.Errorf("the pod has %d processes: %v", used, err)
	}
}

// patchResize asks for other limits, as kubectl patch --subresource resize does.
func (l *life) patchResize(container string, limits corev1.ResourceList) {
	l.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
		"name": container, "resources": corev1.ResourceRequirements{Requests: limits, Limits: limits},
	}}}})
	l.must(err)
	got := l.kubectl("", "patch", "pod", "subject", "--subresource", "resize", "--patch", string(patch))
	if got.code != 0 {
		l.Fatalf("kubectl patch: %+v", got)
	}
}

// resized wants the new limits in the status, and no resize that goes on.
func resized(want corev1.ResourceList) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		if err := resizeDone(pod); err != nil {
			return err
		}
		c, err := app(&pod.Status)
		if err != nil {
			return err
		}
		for name, q := range want {
			if got := c.Resources.Limits[name]; got.Cmp(q) != 0 {
				return fmt.Errorf("%s is %s, want %s", name, got.String(), q.String())
			}
		}
		return isReady(pod)
	}
}

// resizeInPlace: up and down, the kernel holds the running container and its pod to
// the new limits.
func resizeInPlace(l *hostLife) {
	l.create(l.pod(shell(":"), limits("200m", "64Mi")))
	before := l.until("Ready", isReady)
	for _, to := range []struct {
		cpu, memory string
		quota       int64
	}{
		{"400m", "128Mi", 40000},
		{"100m", "32Mi", 10000},
		{"300m", "32Mi", 30000},
		{"100m", "96Mi", 10000},
		{"300m", "64Mi", 30000}, // one more, the other less
	} {
		want := resources(to.cpu, to.memory)
		l.patchResize("app", want)
		pod := l.until("resized", resized(want))
		l.cgroupHas(pod, "cpu", "cpu.cfs_quota_us", to.quota)
		l.cgroupHas(pod, "memory", "memory.limit_in_bytes", want.Memory().Value())
		wantInside := fmt.Sprintf("%d %d", want.Memory().Value(), to.quota)
		if got := l.inside("echo $(" + memoryLimit + ") $(" + cpuQuota + ")"); got != wantInside {
			l.Errorf("in the container: %s, want %s", got, wantInside)
		}
		l.event(pod, "ResizeCompleted")
	}
	after := l.until("Ready", isReady)
	l.must(neverRestarted(after))
	is, was := after.Status.ContainerStatuses[0].ContainerID, before.Status.ContainerStatuses[0].ContainerID
	if is != was {
		l.Errorf("the container was %s and is %s", was, is)
	}
}

// resizeRestarts: a container whose policy says so is restarted, once, and by memory
// alone.
func resizeRestarts(l *hostLife) {
	l.create(l.pod(shell(":"), limits("200m", "64Mi"), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{
			{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
			{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
		}
	}))
	l.until("Ready", isReady)
	l.patchResize("app", resources("300m", "64Mi"))
	l.must(neverRestarted(l.until("more CPU", resized(resources("300m", "64Mi")))))
	l.patchResize("app", resources("300m", "96Mi"))
	pod := l.until("more memory, restarted", func(pod *corev1.Pod) error {
		if err := restartedOnce(pod); err != nil {
			return err
		}
		return resized(resources("300m", "96Mi"))(pod)
	})
	l.cgroupHas(pod, "memory", "memory.limit_in_bytes", 96<<20)
	// The pod's cgroup must have more before the container starts again with more.
	l.patchResize("app", resources("500m", "64Mi"))
	pod = l.until("more CPU, less memory, restarted", func(pod *corev1.Pod) error {
		if n := pod.Status.ContainerStatuses[0].RestartCount; n != 2 {
			return fmt.Errorf("restarted %d times, want 2", n)
		}
		return resized(resources("500m", "64Mi"))(pod)
	})
	l.cgroupHas(pod, "cpu", "cpu.cfs_quota_us", 50000)
	l.cgroupHas(pod, "memory", "memory.limit_in_bytes", 64<<20)
}

// resizeBelowUse: what the kernel refuses is told of and tried again; the container
// runs on.
func resizeBelowUse(l *hostLife) {
	l.create(l.pod(shell("head -c 40m /dev/zero >/dev/shm/file"), limits("200m", "96Mi")))
	l.until("Ready", isReady)
	wait.For(l.T, l.patience(), "the file", func() error {
		if size := l.inside("stat -c %s /dev/shm/file || :"); size != strconv.Itoa(40<<20) {
			return fmt.Errorf("size %s", size)
		}
		return nil
	})
	want := resources("200m", "24Mi")
	l.patchResize("app", want)
	l.until("refused", func(pod *corev1.Pod) error {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodResizeInProgress && c.Reason == corev1.PodReasonError && c.Message != "" {
				return neverRestarted(pod)
			}
		}
		return fmt.Errorf("conditions %v", pod.Status.Conditions)
	})
	l.inside("rm /dev/shm/file")
	l.cgroupHas(l.until("resized once there is room", resized(want)), "memory", "memory.limit_in_bytes", 24<<20)
	l.must(neverRestarted(l.until("Ready", isReady)))
}

// outOfMemory: a container that takes more than its limit is killed, told of, and
// restarted. It begins a little later: containerd tells nothing of an OOM that comes before
// it has begun to look (seen once in 96 pods under six endless loops, and never with a wait).
func outOfMemory(l *hostLife) {
	pod := l.create(l.pod([]string{
		"sh", "-c", "test -e /state/once && sleep 1000; touch /state/once; sleep 3; exec tail -c 200m /dev/zero",
	},
		limits("500m", "24Mi"), mount("state", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})))
	l.until("killed and restarted", func(pod *corev1.Pod) error {
		c, err := app(&pod.Status)
		if err != nil {
			return err
		}
		if last := c.LastTerminationState.Terminated; last == nil || last.Reason != "OOMKilled" || last.ExitCode != 137 ||
			c.RestartCount != 1 || c.State.Running == nil {
			return fmt.Errorf("%s, last %v", states(&pod.Status), c.LastTerminationState)
		}
		return nil
	})
	l.event(pod, "OOMKilling", "Container app was killed because it used more memory than its limit of 24Mi")
}

// restarts: one pod of each policy, whose container ends in the way that decides.
func restarts(l *hostLife) {
	for _, tt := range []struct {
		name   string
		policy corev1.RestartPolicy
		script string
		phase  corev1.PodPhase
		count  int32
	}{
		{"never-fails", corev1.RestartPolicyNever, "exit 3", corev1.PodFailed, 0},
		{
			"onfailure-succeeds-at-last", corev1.RestartPolicyOnFailure,
			"test -e /state/once && exit 0; touch /state/once; exit 1", corev1.PodSucceeded, 1,
		},
		{
			"always-succeeds", corev1.RestartPolicyAlways, "test -e /state/once && sleep 1000; touch /state/once",
			corev1.PodRunning, 1,
		},
	} {
		pod := l.pod(
			[]string{"sh", "-c", tt.script}, mount("state", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		)
		pod.Name, pod.Spec.RestartPolicy = tt.name, tt.policy
		l.create(pod)
		wait.Pod(l, l.c.client, l.namespace, tt.name, l.patience(), "gets there", func(pod *corev1.Pod) error {
			c, err := app(&pod.Status)
			if err == nil && (pod.Status.Phase != tt.phase || c.RestartCount != tt.count) {
				err = fmt.Errorf("%s %s", pod.Status.Phase, states(&pod.Status))
			}
			return err
		})
	}
}

// restartedOnce is nil for a Ready pod whose first container was started again.
func restartedOnce(pod *corev1.Pod) error {
	if s := pod.Status.ContainerStatuses; len(s) == 0 || s[0].RestartCount != 1 {
		return fmt.Errorf("%s", states(&pod.Status))
	}
	return isReady(pod)
}

// evicted waits until the pod has failed as one that took too much of the disk.
func (l *hostLife) evicted(words string) {
	l.Helper()
	// Usage is measured once a minute.
	pod := wait.Pod(l, l.c.client, l.namespace, "subject", 2*l.patience(), "evicted", func(pod *corev1.Pod) error {
		if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Evicted" ||
			!strings.Contains(pod.Status.Message, words) {
			return fmt.Errorf("%s %s: %s (%s)", pod.Status.Phase, pod.Status.Reason, pod.Status.Message, states(&pod.Status))
		}
		return nil
	})
	l.event(pod, "Evicted", words)
}

// ephemeralStorage: what a container writes into its own layer counts.
func ephemeralStorage(l *hostLife) {
	l.create(l.pod(shell("head -c 8m /dev/zero >/file"), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
			corev1.ResourceEphemeralStorage: resource.MustParse("4Mi"),
		}
	}))
	l.evicted("Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. ")
}

// statistics: the node's summary has all of a pod, for who has metrics-server's
// right.
func statistics(l *hostLife) {
	l.create(l.pod(shell(
		"head -c 3m /dev/zero >/scratch/file; head -c 2m /dev/zero >/file; while :; do :; done",
	), limits("100m", "64Mi"),
		mount("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})))
	pod := l.until("Ready", isReady)
	// The API server's proxy refuses nodes whose address is a loopback.
	who := l.c.account(l.T, l.namespace, "reader", l.n.name, "get", "stats")
	wait.For(l.T, l.patience(), "the pod in the summary", func() error {
		code, body := l.n.ask(l.T, who, endpoint{method: http.MethodGet, path: "/stats/summary"})
		var s statsv1alpha1.Summary
		if err := json.Unmarshal([]byte(body), &s); err != nil || code != http.StatusOK {
			return fmt.Errorf("%d %s: %w", code, body, err)
		}
		for i := range s.Pods {
			if s.Pods[i].PodRef.UID == string(pod.UID) {
				return errors.Join(wholeNode(&s.Node), wholePod(&s.Pods[i]))
			}
		}
		return fmt.Errorf("it is not among %d", len(s.Pods))
	})
}

func atLeast(what string, got *uint64, want uint64) error {
	if got == nil || *got < want {
		return fmt.Errorf("%s is %v, want at least %d", what, got, want)
	}
	return nil
}

func wholeNode(n *statsv1alpha1.NodeStats) error {
	if n.CPU == nil || n.Memory == nil || n.Network == nil || n.Fs == nil || n.Runtime == nil ||
		n.Runtime.ImageFs == nil || n.Rlimit == nil {
		return fmt.Errorf("node: %+v", n)
	}
	return errors.Join(
		atLeast("the node's memory", n.Memory.WorkingSetBytes, 1<<20),
		atLeast("the node's CPU", n.CPU.UsageCoreNanoSeconds, 1),
		atLeast("the disk", n.Fs.CapacityBytes, 1<<20), atLeast("the images' disk", n.Runtime.ImageFs.CapacityBytes, 1<<20),
		atLeast("images", n.Runtime.ImageFs.UsedBytes, 1<<10))
}

func wholePod(p *statsv1alpha1.PodStats) error {
	if p.CPU == nil || p.Memory == nil || p.Network == nil || p.EphemeralStorage == nil || p.ProcessStats == nil ||
		len(p.Containers) != 1 || len(p.VolumeStats) != 1 || len(p.Network.Interfaces) == 0 {
		return fmt.Errorf("pod: %+v", p)
	}
	c, v := &p.Containers[0], &p.VolumeStats[0]
	if c.CPU == nil || c.Memory == nil || c.Rootfs == nil || c.Logs == nil || v.Name != "scratch" {
		return fmt.Errorf("container: %+v, volume: %+v", c, v)
	}
	return errors.Join(
		atLeast("CPU", p.CPU.UsageCoreNanoSeconds, 1e8), atLeast("CPU now", p.CPU.UsageNanoCores, 1e6),
		atLeast("CPU of the container", c.CPU.UsageNanoCores, 1e6),
		atLeast("memory", p.Memory.WorkingSetBytes, 1<<10),
		atLeast("memory of the container", c.Memory.WorkingSetBytes, 1<<10),
		atLeast("bytes received", p.Network.RxBytes, 1), atLeast("processes", p.ProcessStats.ProcessCount, 1),
		atLeast("the layer", c.Rootfs.UsedBytes, 2<<20), atLeast("the volume", v.UsedBytes, 3<<20),
		atLeast("ephemeral storage", p.EphemeralStorage.UsedBytes, 5<<20))
}

// TestHostImages: when the disk fills, an image that nobody uses goes; those that
// containers use stay, also other people's.
func TestHostImages(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 70*time.Second)
	c := theCluster(t)
	h := newContainerdHost(t, func(c *remotehost.Config) { c.DiskBytes = 256 << 20 })
	unused, others := "registry.burstlet.test/unused:1", "registry.burstlet.test/others:1"
	h.importImages(t, unused, others)
	strangersContainer(t, h, others)
	if there := h.images(t); !there[unused] || !there[others] {
		t.Fatalf("images %v", there)
	}
	n := newNode(t, c, "images", h.section())
	n.run()
	l := &life{T: t, c: c, n: n, namespace: c.namespace(t, "images")}
	l.create(l.pod(shell(":")))
	l.until("Ready", isReady)
	// Images go from now on: the pod, whose image nobody could pull again, is there.
	n.stop()
	n.configure("images: {imageGCHighThresholdPercent: 1, imageGCLowThresholdPercent: 0, imageMinimumGCAge: 10s}\n")
	n.run()
	wait.For(t, patience, "the unused image goes", func() error {
		if there := h.images(t); there[unused] {
			return fmt.Errorf("images %v", there)
		}
		return nil
	})
	// One more look of the collector, which removes nothing.
	l.stays(15*time.Second, "the images that are used stay", func(*corev1.Pod) error {
		if there := h.images(t); !there[others] || !there[imageOf] || !there[images.PauseRef] {
			return fmt.Errorf("images %v", there)
		}
		return nil
	})
}

// importImages loads images of these names, each another one.
func (h *containerdHost) importImages(t *testing.T, names ...string) {
	t.Helper()
	set := map[string]v1.Image{}
	for _, name := range names {
		image, err := images.Busybox()
		if err != nil {
			t.Fatal(err)
		}
		if set[name], err = mutate.Config(
			image, v1.Config{Cmd: []string{"sh"}, Labels: map[string]string{"name": name}},
		); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(t.TempDir(), "images.tar")
	if err := images.WriteArchive(archive, set); err != nil {
		t.Fatal(err)
	}
	if err := h.ImportImages(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "the images", func() error {
		there := h.images(t)
		for _, name := range names {
			if !there[name] {
				return fmt.Errorf("images %v", there)
			}
		}
		return nil
	})
}

// images are the names of those that the host holds.
func (h *containerdHost) images(t *testing.T) map[string]bool {
	t.Helper()
	_, client := h.CRI()
	var reply *runtimeapi.ListImagesResponse
	if err := asked(func(ctx context.Context) (err error) {
		reply, err = client.ListImages(ctx, &runtimeapi.ListImagesRequest{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, image := range reply.Images {
		for _, name := range image.RepoTags {
			there[name] = true
		}
	}
	return there
}

// strangersContainer starts a container that no node of ours made.
func strangersContainer(t *testing.T, h *containerdHost, image string) {
	t.Helper()
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "stranger", Namespace: "elsewhere", Uid: "stranger"},
		Linux:    &runtimeapi.LinuxPodSandboxConfig{},
	}
	ran, err := h.cri.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.cri.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: ran.PodSandboxId, SandboxConfig: sandbox,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "stranger"}, Image: &runtimeapi.ImageSpec{Image: image},
			Command: []string{"sleep", "1000"}, Linux: &runtimeapi.LinuxContainerConfig{},
		},
	}); err != nil {
		t.Fatal(err)
	}
}
