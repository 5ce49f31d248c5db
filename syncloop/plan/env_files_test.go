package plan

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/resolve"
)

func fromFile(pod *corev1.Pod) {
	ref := &corev1.FileKeySelector{VolumeName: "v", Path: "env", Key: "K"}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FileKeyRef: ref}}}
}

// TestEnvFiles: files are read when a container's turn has come, once for each start, and
// again after ten seconds if they do not serve.
func TestEnvFiles(t *testing.T) {
	file := resolve.EnvFile{Volume: "v", Path: "env"}
	pod := aPod(inits("i"), fromFile)
	in := input(pod, 0)
	wantActions(t, Decide(in), "launch attempt 0", "start container i attempt 0")
	in = input(pod, 3, attempt(0, true, ran1("i", 0, 1, 2, 0)))
	p := Decide(in)
	wantActions(t, p, "read files of container a attempt 0")
	read := func(contents string, err error, sec float64) {
		in.Memory.Record(Result{Action: p.Actions[0], At: at(sec), EnvFiles: map[resolve.EnvFile]resolve.Object[[]byte]{
			file: {Value: []byte(contents), Err: err},
		}})
		in.Now, in.FactsAt = at(sec), at(sec)
		p = Decide(in)
	}
	wantHeld := func(message string) {
		t.Helper()
		w := p.Status.ContainerStatuses[0].State.Waiting
		if w == nil || w.Reason != "CreateContainerConfigError" || w.Message != message {
			t.Errorf("waiting %+v, want %q", w, message)
		}
	}
	read("", backend.Errorf(backend.ErrNotFound, "no such file"), 4)
	wantActions(t, p)
	wantHeld("couldn't parse env file: no such file")
	if !p.WakeAt.Equal(at(14)) {
		t.Errorf("wakes at %v", p.WakeAt)
	}
	in.Now = at(14)
	p = Decide(in)
	wantActions(t, p, "read files of container a attempt 0")
	wantHeld("couldn't parse env file: no such file")

	read("K='x'", nil, 15)
	wantActions(t, p, "start container a attempt 0")
	if env := p.Actions[0].(StartContainer).Spec.Container.Env; len(env) == 0 || env[0].Value != "x" {
		t.Errorf("variables %v", env)
	}
	in.Memory.Record(Result{Action: p.Actions[0], At: at(16), Err: errors.New("odd"), Reason: ReasonCreateError})
	in.Now = at(30)
	p = Decide(in)
	wantActions(t, p, "read files of container a attempt 0") // another try, another read

	in.Memory.Record(Result{Action: p.Actions[0], At: at(30), Err: backend.ErrUnavailable})
	in.Now = at(30.5)
	p = Decide(in)
	wantActions(t, p)
	if !p.WakeAt.Equal(at(31)) || p.Status.ContainerStatuses[0].State.Waiting.Reason == "CreateContainerConfigError" {
		t.Errorf("wakes at %v: %+v", p.WakeAt, p.Status.ContainerStatuses[0].State)
	}
}
