package stats

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/convert"
	"github.com/burstlet/burstlet/backend/cri/transport"
)

// boxCalls bounds the questions about sandboxes that are under way at once.
const boxCalls = 8

// measurements is what Stats remembers from one call to the next. Its zero value
// is ready.
type measurements struct {
	mu sync.Mutex
	// images is a path on the file system of images; asked is true once the runtime
	// has answered.
	images string
	asked  bool
	// boxes are the sandboxes of the containers that were measured last, by the
	// container's id.
	boxes map[string]*box
	rates rates
}

// box is what of a sandbox does not change.
type box struct {
	ref     backend.Ref
	created int64 // nanoseconds
	cgroup  string
	// netPID is a process in its network namespace; 0 on the host's.
	netPID int
	image  string
}

// measuredPod is one attempt of a pod, with those of its containers that run.
type measuredPod struct {
	box        *box
	containers []measuredContainer
	// last is true of the newest attempt of the pod.
	last bool
}

type measuredContainer struct {
	stats  *runtimeapi.ContainerStats
	status *runtimeapi.ContainerStatus
}

// running are the pods of the containers that run and were measured, in the order
// of UID and attempt.
func (s *Measurer) running(ctx context.Context, all []*runtimeapi.ContainerStats) ([]*measuredPod, error) {
	all = slices.DeleteFunc(all, func(c *runtimeapi.ContainerStats) bool {
		return c.GetCpu() == nil &&
			c.GetMemory() == nil
	})
	boxes, err := s.boxes(ctx, all)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *runtimeapi.ContainerStats) int {
		return strings.Compare(a.GetAttributes().GetId(), b.GetAttributes().GetId())
	})
	byBox := map[string]*measuredPod{}
	for _, c := range all {
		id := c.GetAttributes().GetId()
		b := boxes[id]
		if b == nil {
			continue // gone since it was measured
		}
		status, err := s.from.Status(ctx, id)
		if err != nil {
			return nil, err
		}
		if status.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if byBox[b.ref.ID] == nil {
			byBox[b.ref.ID] = &measuredPod{box: b}
		}
		byBox[b.ref.ID].containers = append(byBox[b.ref.ID].containers, measuredContainer{stats: c, status: status})
	}
	pods := slices.SortedFunc(maps.Values(byBox), func(a, b *measuredPod) int {
		if c := strings.Compare(string(a.box.ref.UID), string(b.box.ref.UID)); c != 0 {
			return c
		}
		return a.box.ref.Attempt - b.box.ref.Attempt
	})
	for i, p := range pods {
		p.last = i == len(pods)-1 || pods[i+1].box.ref.UID != p.box.ref.UID
	}
	return pods, nil
}

// boxes are the sandboxes of containers: a measurement does not name them. Those
// that are known already are not asked for again.
func (s *Measurer) boxes(ctx context.Context, all []*runtimeapi.ContainerStats) (map[string]*box, error) {
	m := &s.measured
	m.mu.Lock()
	before := m.boxes
	m.mu.Unlock()
	boxes := make(map[string]*box, len(all))
	for _, c := range all {
		if b := before[c.GetAttributes().GetId()]; b != nil {
			boxes[c.GetAttributes().GetId()] = b
		}
	}
	if len(boxes) < len(all) {
		attempts, err := s.from.Attempts(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.addBoxes(ctx, boxes, attempts); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	m.boxes = boxes // nobody writes to it any more
	m.mu.Unlock()
	return boxes, nil
}

// addBoxes adds the sandboxes of the containers of attempts, asking for their
// processes a few at a time.
func (s *Measurer) addBoxes(ctx context.Context, boxes map[string]*box, attempts []Attempt) error {
	known := map[string]*box{}
	for _, b := range boxes {
		known[b.ref.ID] = b
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(boxCalls)
	for _, a := range attempts {
		b := known[a.Ref.ID]
		if b == nil {
			b = &box{ref: a.Ref, created: a.Sandbox.GetCreatedAt(), cgroup: a.Sandbox.GetAnnotations()[convert.AnnotationCgroup]}
			if a.Ready {
				g.Go(func() (err error) {
					b.netPID, b.image, err = s.networkProcess(ctx, a.Ref.ID)
					return err
				})
			}
		}
		for _, c := range a.Containers {
			boxes[c.GetId()] = b
		}
	}
	return g.Wait()
}

// networkProcess is the process that holds a sandbox's network namespace, and its image;
// 0 where it has none of its own, or the runtime does not say.
func (s *Measurer) networkProcess(ctx context.Context, id string) (int, string, error) {
	reply, err := s.from.Runtime.PodSandboxStatus(
		ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true},
	)
	switch {
	case transport.IsNotFound(err):
		return 0, "", nil
	case err != nil:
		return 0, "", transport.Failed(err, "look at sandbox %s", id)
	}
	pid, image := sandboxProcess(reply.GetInfo()["info"])
	if reply.GetStatus().GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE {
		pid = 0
	}
	return pid, image, nil
}

// sandboxProcess reads containerd's verbose status; nothing of another runtime's, which
// words it differently.
func sandboxProcess(verbose string) (pid int, image string) {
	var info struct {
		PID   int    `json:"pid"`
		Image string `json:"image"`
	}
	if json.Unmarshal([]byte(verbose), &info) != nil {
		return 0, ""
	}
	return info.PID, info.Image
}

// imagesPath is a path on the file system of images, asked once; empty where the
// runtime does not say.
func (s *Measurer) imagesPath(ctx context.Context) (string, error) {
	m := &s.measured
	m.mu.Lock()
	path, asked := m.images, m.asked
	m.mu.Unlock()
	if asked {
		return path, nil
	}
	path, err := s.from.ImageMount(ctx)
	if err != nil && !errors.Is(err, backend.ErrUnsupported) {
		return "", err
	}
	m.mu.Lock()
	m.images, m.asked = path, true
	m.mu.Unlock()
	return path, nil
}

func isSlice(cgroup string) bool { return strings.HasSuffix(cgroup, ".slice") }
