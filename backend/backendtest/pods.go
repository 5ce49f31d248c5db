package backendtest

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
)

// program is a command line.
type program []string

// What containers do. A process with id 1 ignores TERM unless it handles it, so
// what should end on TERM has a trap.
var (
	untilTerm  = program{"sh", "-c", "trap 'exit 143' TERM; echo ready; sleep 36000 & wait"}
	ignoreTerm = program{"sh", "-c", "trap '' TERM; echo ready; sleep 36000"}
	succeed    = program{"true"}
	fail       = program{"false"}
)

func exitWith(code int32) program { return program{"sh", "-c", fmt.Sprintf("exit %d", code)} }

func exitAfter(seconds int, code int32) program {
	return program{"sh", "-c", fmt.Sprintf("sleep %d; exit %d", seconds, code)}
}

// settle is a moment in which nothing may happen.
const settle = 300 * time.Millisecond

// upTo returns as many programs as a pod may have app containers.
func (s *suite) upTo(programs ...program) []program {
	if s.f.MaxApps > 0 && len(programs) > s.f.MaxApps {
		return programs[:s.f.MaxApps]
	}
	return programs
}

// pod makes a pod of the check's own with app containers "c0", "c1", ….
func (s *suite) pod(programs ...program) *corev1.Pod {
	n := serial.Add(1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "conformance", Name: fmt.Sprintf("pod-%d", n), UID: uuid.NewUUID(),
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64(s.longGrace() / time.Second)),
		},
	}
	for i, p := range programs {
		pod.Spec.Containers = append(pod.Spec.Containers, s.container(fmt.Sprintf("c%d", i), p))
	}
	return pod
}

// withInit adds init containers "i0", "i1", ….
func (s *suite) withInit(pod *corev1.Pod, programs ...program) *corev1.Pod {
	for i, p := range programs {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, s.container(fmt.Sprintf("i%d", i), p))
	}
	return pod
}

func (s *suite) container(name string, p program) corev1.Container {
	return corev1.Container{Name: name, Image: s.f.Image, Command: p}
}

// launchSpec is a pod's attempt as the engine would give it.
func (s *suite) launchSpec(pod *corev1.Pod, attempt int) backend.LaunchSpec {
	s.note(pod.UID)
	spec := backend.LaunchSpec{Pod: pod, Attempt: attempt}
	for _, c := range pod.Spec.InitContainers {
		spec.Containers = append(spec.Containers, s.containerSpec(pod, c, true, attempt))
	}
	for _, c := range pod.Spec.Containers {
		spec.Containers = append(spec.Containers, s.containerSpec(pod, c, false, attempt))
	}
	return spec
}

func (s *suite) containerSpec(pod *corev1.Pod, c corev1.Container, init bool, attempt int) backend.ContainerSpec {
	return backend.ContainerSpec{Pod: pod, Container: c, Init: init, Attempt: attempt, Hash: hashOf(c.Name)}
}

// hashOf is an opaque hash: backends only carry it.
func hashOf(container string) string { return "hash-of-" + container }

// note remembers a pod for cleanUp.
func (s *suite) note(uid types.UID) {
	for _, u := range s.made {
		if u == uid {
			return
		}
	}
	s.made = append(s.made, uid)
}

// run brings up an attempt of a pod, whoever starts its app containers, and
// returns its name.
func (s *suite) run(pod *corev1.Pod, attempt int) backend.Ref {
	s.Helper()
	return s.runWith(pod, attempt)
}

// runWith is run for a pod with volumes, however they come there.
func (s *suite) runWith(pod *corev1.Pod, attempt int, volumes ...backend.VolumeSpec) backend.Ref {
	s.Helper()
	spec := s.launchSpec(pod, attempt)
	if s.Files == nil {
		spec.Volumes = volumes
	} else {
		for _, v := range volumes {
			s.must(s.Files.Place(s.Context(), v))
		}
	}
	s.must(s.Pods.Launch(s.Context(), s.Context(), spec))
	if s.Containers != nil {
		for _, c := range pod.Spec.Containers {
			s.start(spec.Ref(), s.containerSpec(pod, c, false, attempt))
		}
	}
	return spec.Ref()
}

// start starts one container, pulling its image first.
func (s *suite) start(ref backend.Ref, spec backend.ContainerSpec) {
	s.Helper()
	spec.ImageID = s.pull(spec.Container.Image)
	s.must(s.Containers.Start(s.Context(), ref, spec))
}

// pull finds or pulls an image, "" where the remote does that itself.
func (s *suite) pull(image string) string {
	s.Helper()
	if s.Images == nil {
		return ""
	}
	id, err := s.Images.Find(s.Context(), image)
	if err != nil {
		s.wantClass("find an image that is not there", err, backend.ErrNotFound)
		pulled, err := s.Images.Pull(s.Context(), image, nil)
		s.must(err)
		return pulled.ID
	}
	return id
}

// inspect returns the facts of all attempts of one pod.
func (s *suite) inspect(uid types.UID) []backend.PodFacts {
	s.Helper()
	facts, err := s.Pods.Inspect(s.Context(), []types.UID{uid})
	s.must(err)
	return facts
}

// listed returns what List says of one pod.
func (s *suite) listed(uid types.UID) []backend.PodFacts {
	s.Helper()
	all, err := s.Pods.List(s.Context())
	s.must(err)
	var facts []backend.PodFacts
	for _, f := range all {
		if f.UID == uid {
			facts = append(facts, f)
		}
	}
	return facts
}

// await polls one attempt until ok is true of it.
func (s *suite) await(ref backend.Ref, what string, ok func(backend.PodFacts) bool) backend.PodFacts {
	s.Helper()
	var found backend.PodFacts
	s.eventually(fmt.Sprintf("pod %s attempt %d: %s", ref.Name, ref.Attempt, what), func() error {
		facts, err := s.Pods.Inspect(s.Context(), []types.UID{ref.UID})
		if err != nil {
			return err
		}
		for _, f := range facts {
			if f.Attempt == ref.Attempt && ok(f) {
				found = f
				return nil
			}
		}
		return fmt.Errorf("last seen: %+v", facts)
	})
	return found
}

// awaitRunning waits until all app containers run.
func (s *suite) awaitRunning(ref backend.Ref) backend.PodFacts {
	s.Helper()
	return s.await(ref, "runs", func(f backend.PodFacts) bool {
		return f.Live && len(f.Containers) > 0 && allAppsIn(f, backend.Running)
	})
}

// awaitReady waits until all containers, of untilTerm or ignoreTerm, have set their
// traps.
func (s *suite) awaitReady(ref backend.Ref) {
	s.Helper()
	f := s.awaitRunning(ref)
	if !s.f.Shells {
		return
	}
	for _, c := range f.Containers {
		s.awaitLog(c.Ref(ref), "ready")
	}
}

// awaitExited waits until all app containers have exited.
func (s *suite) awaitExited(ref backend.Ref) backend.PodFacts {
	s.Helper()
	return s.await(ref, "its containers exited", func(f backend.PodFacts) bool {
		return len(f.Containers) > 0 && allAppsIn(f, backend.Exited)
	})
}

// awaitDead waits until the attempt is not live.
func (s *suite) awaitDead(ref backend.Ref) backend.PodFacts {
	s.Helper()
	return s.await(ref, "is not live", func(f backend.PodFacts) bool { return !f.Live })
}

// removed repeats Remove until it says NotFound.
func (s *suite) removed(ctx context.Context, ref backend.Ref) {
	s.Helper()
	s.eventually("Remove returns NotFound", func() error {
		err := s.Pods.Remove(ctx, ref)
		if backend.Class(err) == backend.Class(backend.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("returned class %q: %w", backend.Class(err), err)
	})
}

// allAppsIn is true when all app containers ("c…") are in a state.
func allAppsIn(f backend.PodFacts, state backend.State) bool {
	for _, c := range f.Containers {
		if c.Name[0] == 'c' && c.State() != state {
			return false
		}
	}
	return true
}

// facts returns one attempt of a container, or fails the check.
func (s *suite) facts(f backend.PodFacts, name string, attempt int) backend.ContainerFacts {
	s.Helper()
	for _, c := range f.Containers {
		if c.Name == name && c.Attempt == attempt {
			return c
		}
	}
	s.Fatalf("no container %s attempt %d in %+v", name, attempt, f)
	return backend.ContainerFacts{}
}
