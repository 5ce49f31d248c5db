package backendtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
)

// withSecret adds a secret volume "v" to a pod, mounted at /v by every
// container, and returns it ready to be made. Contents are given as pairs of
// path and data.
func (s *suite) withSecret(pod *corev1.Pod, contents ...string) backend.VolumeSpec {
	source := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: "/v", ReadOnly: true})
	}
	return s.secret(pod, contents...)
}

// secret is the volume of withSecret with other contents.
func (s *suite) secret(pod *corev1.Pod, contents ...string) backend.VolumeSpec {
	s.note(pod.UID)
	v := backend.VolumeSpec{Pod: pod, Name: "v", Hash: hashOf(strings.Join(contents, "\x00"))}
	v.Source.Secret = &corev1.SecretVolumeSource{SecretName: "s"}
	for i := 0; i < len(contents); i += 2 {
		v.Files = append(v.Files, backend.File{Path: contents[i], Data: []byte(contents[i+1]), Mode: 0o644})
	}
	slices.SortFunc(v.Files, func(a, b backend.File) int { return strings.Compare(a.Path, b.Path) })
	return v
}

// volumes returns what is placed for some pods, by name.
func (s *suite) volumes(uids ...types.UID) []backend.VolumeFacts {
	s.Helper()
	all, err := s.Files.Volumes(s.Context())
	s.must(err)
	all = slices.DeleteFunc(all, func(f backend.VolumeFacts) bool { return !slices.Contains(uids, f.Pod.UID) })
	slices.SortFunc(all, func(a, b backend.VolumeFacts) int {
		return strings.Compare(a.Pod.Name+"/"+a.Name, b.Pod.Name+"/"+b.Name)
	})
	return all
}

// onlyVolume returns the single volume of a pod.
func (s *suite) onlyVolume(uid types.UID) backend.VolumeFacts {
	s.Helper()
	facts := s.volumes(uid)
	if len(facts) != 1 {
		s.Fatalf("want exactly one volume of pod %s: %+v", uid, facts)
	}
	return facts[0]
}

// cleared repeats Clear until it says NotFound.
func (s *suite) cleared(ref backend.Ref) {
	s.Helper()
	s.eventually("Clear returns NotFound", func() error { return s.clear(s.Context(), ref) })
}

// clear is nil when no volume of the pod is left.
func (s *suite) clear(ctx context.Context, ref backend.Ref) error {
	err := s.Files.Clear(ctx, ref)
	if backend.Class(err) == backend.Class(backend.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("clear returned class %q: %w", backend.Class(err), err)
}

// wantVolume checks all that a restarted engine reads from a listing.
func (s *suite) wantVolume(f backend.VolumeFacts, spec backend.VolumeSpec, from, to time.Time) {
	s.Helper()
	got := backend.Ref{UID: f.Pod.UID, Namespace: f.Pod.Namespace, Name: f.Pod.Name}
	want := backend.Ref{UID: spec.Pod.UID, Namespace: spec.Pod.Namespace, Name: spec.Pod.Name}
	if got != want || f.Name != spec.Name || f.Hash != spec.Hash {
		s.Errorf("volume facts %+v, want %+v, name %q, hash %q", f, want, spec.Name, spec.Hash)
	}
	s.wantOrder(map[string]time.Time{
		"the call": from.Add(-s.f.Slack), "PlacedAt": f.PlacedAt, "the reading": to.Add(s.f.Slack),
	}, "the call", "PlacedAt", "the reading")
}

func filesVolumes(s *suite) {
	pod, other := s.pod(untilTerm), s.pod(untilTerm)
	before := time.Now()
	v := s.withSecret(pod, "f", "one")
	s.must(s.Files.Place(s.Context(), v))
	s.must(s.Files.Place(s.Context(), s.withSecret(other, "f", "one")))
	scratch := backend.VolumeSpec{Pod: pod, Name: "a", Hash: "h"}
	scratch.Source.EmptyDir = &corev1.EmptyDirVolumeSource{}
	s.must(s.Files.Place(s.Context(), scratch))
	facts := s.volumes(pod.UID)
	if len(facts) != 2 {
		s.Fatalf("placed two volumes: %+v", facts)
	}
	s.wantVolume(facts[0], scratch, before, time.Now())
	s.wantVolume(facts[1], v, before, time.Now())

	s.pause(time.Second)
	before = time.Now()
	v = s.secret(pod, "f", "two")
	s.must(s.Files.Place(s.Context(), v))
	again := s.volumes(pod.UID)
	s.wantVolume(again[1], v, before, time.Now())
	if diff := cmp.Diff(facts[0], again[0]); diff != "" {
		s.Errorf("the other volume changed:\n%s", diff)
	}
}

func filesTwice(s *suite) {
	pod := s.pod(untilTerm)
	v := s.withSecret(pod, "f", "one")
	s.must(s.Files.Place(s.Context(), v))
	first := s.onlyVolume(pod.UID)
	s.pause(time.Second)
	s.must(s.Files.Place(s.Context(), v))
	if diff := cmp.Diff(first, s.onlyVolume(pod.UID)); diff != "" {
		s.Errorf("placing what is there changed it:\n%s", diff)
	}
}

func filesLostReply(s *suite) {
	var script fault.Script
	script.Add(fault.FilesPlace, 1, fault.Fault{LoseReply: true})
	script.Add(fault.FilesClear, 1, fault.Fault{LoseReply: true})
	b := fault.Wrap(s.Backend, &script)
	pod := s.pod(untilTerm)
	v := s.withSecret(pod, "f", "one")
	s.wantClass("place with a lost reply", b.Files.Place(s.Context(), v), backend.ErrUnavailable)
	first := s.onlyVolume(pod.UID)
	s.reopen()
	s.must(s.Files.Place(s.Context(), v))
	if diff := cmp.Diff(first, s.onlyVolume(pod.UID)); diff != "" {
		s.Errorf("the replay changed it:\n%s", diff)
	}
	b = fault.Wrap(s.Backend, &script)
	ref := backend.Ref{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
	s.wantClass("clear with a lost reply", b.Files.Clear(s.Context(), ref), backend.ErrUnavailable)
	s.cleared(ref)
	if left := s.volumes(pod.UID); len(left) > 0 {
		s.Errorf("left: %+v", left)
	}
}

func filesAfterReopen(s *suite) {
	pod := s.pod(untilTerm)
	s.must(s.Files.Place(s.Context(), s.withSecret(pod, "f", "one")))
	first := s.onlyVolume(pod.UID)
	s.reopen()
	if diff := cmp.Diff(first, s.onlyVolume(pod.UID)); diff != "" {
		s.Errorf("after the restart:\n%s", diff)
	}
}

func filesClear(s *suite) {
	pod, other := s.pod(untilTerm), s.pod(untilTerm)
	s.must(s.Files.Place(s.Context(), s.withSecret(pod, "f", "one")))
	s.must(s.Files.Place(s.Context(), s.withSecret(other, "f", "one")))
	ref := s.run(pod, 0)
	s.removed(s.Context(), ref)
	s.onlyVolume(pod.UID) // volumes are the pod's, not an attempt's
	s.cleared(ref)
	if left := s.volumes(pod.UID); len(left) > 0 {
		s.Errorf("left after NotFound: %+v", left)
	}
	s.onlyVolume(other.UID)
	unknown := backend.Ref{UID: uuid.NewUUID(), Namespace: "conformance", Name: "unknown"}
	s.wantClass("clear nothing", s.Files.Clear(s.Context(), unknown), backend.ErrNotFound)
}

// volumesAreRead: a file in a directory, the same by a subPath, and one in the
// root, wherever the contents come from.
func volumesAreRead(s *suite) {
	pod := s.pod(program{"sh", "-c", "cat /v/d/one; cat /v/two; cat /sub; exit 0"})
	v := s.withSecret(pod, "d/one", "1\n", "two", "2\n")
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = append(
		c.VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: "/sub", SubPath: "d/one", ReadOnly: true},
	)
	if s.refuses(pod) {
		return
	}
	ref := s.runWith(pod, 0, v)
	c0 := s.facts(s.awaitExited(ref), "c0", 0).Ref(ref)
	s.awaitLog(c0, "1", "2", "1")
}

// swapSeenWhole: while contents are swapped, a reader sees the old or the new.
func swapSeenWhole(s *suite) {
	const size = 64 << 10
	text := func(digit string) string { return strings.Repeat(digit, size) }
	pod := s.pod(untilTerm)
	v := s.withSecret(pod, "f", text("0"), "old", "")
	ref := s.runWith(pod, 0, v)
	s.awaitRunning(ref)
	for _, digit := range []string{"1", "2", "3"} {
		placed := make(chan error, 1)
		go func() { placed <- s.Files.Place(s.Context(), s.secret(pod, "f", text(digit), "new", "")) }()
		for done := false; !done; {
			select {
			case err := <-placed:
				s.must(err)
				done = true
			default:
				s.pause(s.f.Poll / 10)
			}
			out, code := s.exec(backend.ContainerRef{Pod: ref, Name: "c0"}, "", "cat", "/v/f")
			if code != 0 || out != text(out[:min(1, len(out))]) || len(out) != size || (done && out[:1] != digit) {
				s.Fatalf(
					"swapping to %s (done: %v) a reader saw %d bytes, exit code %d: %.20q…", digit, done, len(out), code, out,
				)
			}
		}
	}
	if out, _ := s.exec(backend.ContainerRef{Pod: ref, Name: "c0"}, "", "ls", "/v"); out != "f\nnew\n" {
		s.Errorf("after the swap there are %q, want f and new", out)
	}
}

// emptyDirShared: containers of a pod share an emptyDir, and it outlives them.
func emptyDirShared(s *suite) {
	pod := s.pod(program{"sh", "-c", "echo hello > /v/f; exit 0"}, program{"sh", "-c", "cat /v/f; exit 0"})
	v := s.withSecret(pod)
	v.Source = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	pod.Spec.Volumes[0].VolumeSource = v.Source
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].VolumeMounts[0].ReadOnly = false
	}
	s.must(s.Files.Place(s.Context(), v))
	spec := s.launchSpec(pod, 0)
	ref := spec.Ref()
	s.must(s.Pods.Launch(s.Context(), s.Context(), spec))
	s.start(ref, spec.Containers[0])
	c0 := s.facts(s.awaitExited(ref), "c0", 0).Ref(ref)
	s.must(s.Containers.Remove(s.Context(), c0))
	s.must(s.Files.Place(s.Context(), v)) // again: it must not be emptied
	s.start(ref, spec.Containers[1])
	c1 := s.facts(s.awaitExited(ref), "c1", 0).Ref(ref)
	s.awaitLog(c1, "hello") // what c0 left
	file := backend.VolumeFile{Pod: ref, Volume: "v", Path: "f"}
	if data, err := s.Files.Read(s.Context(), file); err != nil || string(data) != "hello\n" {
		s.Errorf("Read: %q, %v", data, err)
	}
	file.Path = "missing"
	_, err := s.Files.Read(s.Context(), file)
	s.wantClass("read a file that is not there", err, backend.ErrNotFound)
	file.Path, file.Volume = "f", "none"
	_, err = s.Files.Read(s.Context(), file)
	s.wantClass("read a volume that is not there", err, backend.ErrNotFound)
}
