package e2e

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// remote is where a node's pods run, seen past burstlet.
type remote struct {
	name    string
	backend string   // section of the configuration
	env     []string // of the process
	// mounts says that it has volumes: pods keep that of their service account's
	// token.
	mounts bool
	// preface is how every log begins, with the name of the container.
	preface string
	// prompt says that nothing takes time there.
	prompt bool
	// live returns what still runs or holds something for a pod; nil where it
	// cannot be seen from outside, in the simulation within the process.
	live func(t *testing.T, pod *corev1.Pod) []string
	// all returns what still runs of any pod; nil as live.
	all func(t *testing.T) []string
}

// soon bounds how long a step takes the quickest of many pods on a remote where
// nothing takes time: it is less than the period of any ticker, for which no user
// should wait. All would wait for the same one.
const soon = 8 * time.Second

// halfway is when half of the pods are there or gone: some have a backoff of 10 s, a few
// wait for a machine with other work, but no step of all of them hangs.
const halfway = 20 * time.Second

const missingImage = "registry.burstlet.test/missing:1"

// makeRemote makes the remote of a node.
type makeRemote func(t *testing.T, c *cluster, node string) remote

func simRemote(granularity string) makeRemote {
	return func(*testing.T, *cluster, string) remote {
		return remote{
			name: "sim-" + granularity, backend: "  type: sim\n  sim: {granularity: " + granularity + "}\n",
			mounts: true, prompt: true,
		}
	}
}

func simProcessRemote(args ...string) makeRemote {
	return func(t *testing.T, c *cluster, node string) remote {
		p := newSimProcess(t, args...)
		view := p.as(c, node)
		return remote{
			name: "sim-process", backend: p.section(), mounts: true, prompt: true,
			live: func(t *testing.T, pod *corev1.Pod) []string { return view.left(t, pod.UID) },
			all:  func(t *testing.T) []string { return view.left(t, "") },
		}
	}
}

// machine is a host of any kind that is reached over SSH. All but its endpoint leads past
// SSH, or past the link that tests cut.
type machine interface {
	Endpoint() string
	KeyFile() string
	KnownHostsFile() string
	Hostname() string
	Address() netip.Addr
	Command(ctx context.Context, name string, args ...string) *exec.Cmd
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	CRI() (runtimeapi.RuntimeServiceClient, runtimeapi.ImageServiceClient)
}

// hostView is a host of containers, and what runs on it.
type hostView struct {
	machine
	cri runtimeapi.RuntimeServiceClient
	// systemd says that it makes the cgroups.
	systemd bool
}

func viewOf(m machine) *hostView {
	h := &hostView{machine: m}
	h.cri, _ = m.CRI()
	return h
}

// containerdHost is a host in namespaces.
type containerdHost struct {
	*remotehost.Host
	*hostView
}

func newContainerdHost(t *testing.T, options ...func(*remotehost.Config)) *containerdHost {
	t.Helper()
	h := remotehost.ForTest(t, options...)
	return &containerdHost{h, viewOf(h)}
}

// section is the host as a backend. More are further keys of backend.cri.
func (h *hostView) section(more ...string) string {
	return fmt.Sprintf("  type: cri\n  cri: {endpoint: %q, ssh: {keyFiles: [%q], knownHostsFile: %q}%s}\n",
		h.Endpoint(), h.KeyFile(), h.KnownHostsFile(), strings.Join(append([]string{""}, more...), ", "))
}

// sandboxes returns those of one pod, or of all with "".
func (h *hostView) sandboxes(t *testing.T, uid string) []*runtimeapi.PodSandbox {
	t.Helper()
	filter := &runtimeapi.PodSandboxFilter{}
	if uid != "" {
		filter.LabelSelector = map[string]string{"io.kubernetes.pod.uid": uid}
	}
	var items []*runtimeapi.PodSandbox
	if err := asked(func(ctx context.Context) error {
		reply, err := h.cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: filter})
		items = reply.GetItems()
		return err
	}); err != nil {
		t.Errorf("list sandboxes: %v", err)
	}
	return items
}

// asked asks until there is an answer: a runtime that was started again just now does
// not give one to everybody. It returns the last error after a minute of them.
func asked(ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return wait.Until(ctx, "an answer", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		return ask(ctx)
	})
}

// containers returns all containers in a state.
func (h *hostView) containers(t *testing.T, state runtimeapi.ContainerState) []*runtimeapi.Container {
	t.Helper()
	var list []*runtimeapi.Container
	if err := asked(func(ctx context.Context) error {
		reply, err := h.cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
			State: &runtimeapi.ContainerStateValue{State: state},
		}})
		list = reply.GetContainers()
		return err
	}); err != nil {
		t.Errorf("list containers: %v", err)
	}
	return list
}

// count counts sandboxes and running containers by pod.
func (h *hostView) count(t *testing.T) (sandboxes, running map[types.UID]int) {
	t.Helper()
	sandboxes, running = map[types.UID]int{}, map[types.UID]int{}
	for _, s := range h.sandboxes(t, "") {
		sandboxes[types.UID(s.Metadata.Uid)]++
	}
	for _, container := range h.containers(t, runtimeapi.ContainerState_CONTAINER_RUNNING) {
		running[types.UID(container.Labels["io.kubernetes.pod.uid"])]++
	}
	return sandboxes, running
}

// remote is the host as a kind of remote.
func (h *hostView) remote() remote {
	ids := func(t *testing.T, uid string) (ids []string) {
		for _, s := range h.sandboxes(t, uid) {
			ids = append(ids, s.Id)
		}
		return ids
	}
	return remote{
		name: onCRI, backend: h.section(), mounts: true,
		live: func(t *testing.T, pod *corev1.Pod) []string { return ids(t, string(pod.UID)) },
		all:  func(t *testing.T) []string { return ids(t, "") },
	}
}

func ecsRemote(t *testing.T, _ *cluster, _ string) remote {
	server := ecs.New(ecs.Config{Delays: ecs.Delays{
		Provision: 200 * time.Millisecond, Pull: 100 * time.Millisecond,
		Deprovision: 200 * time.Millisecond, Visible: 300 * time.Millisecond,
	}})
	url, stop, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return remote{
		name: "ecs",
		backend: fmt.Sprintf("  type: ecs\n  ecs: {region: us-east-1, cluster: default, subnets: "+
			"[subnet-0123456789abcdef0], "+
			"executionRoleARN: %q, endpoint: %q}\n", "arn:aws:iam::123456789012:role/execution", url),
		env: []string{"AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=example", "AWS_EC2_METADATA_DISABLED=true"},
		// The server does not tell tasks apart by pod.
		all: func(*testing.T) []string { return server.Tasks(true) },
	}
}

// allRemotes are the kinds of remote that every scenario runs on, beside a host over
// SSH (TestHost).
var allRemotes = []struct {
	name string
	make makeRemote
}{
	{"sim-container", simRemote("container")},
	{"sim-pod", simRemote("pod")},
	{onSim, simProcessRemote()},
	{onPodUnit, simProcessRemote("--pod-unit")},
	{"ecs", ecsRemote},
}

// imageOf is the image that all remotes have.
const imageOf = images.BusyboxRef
