package intask

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

// reporting is an agent that tells how two containers are.
type reporting struct {
	*testing.T
	around *around
	dir    string
	key    string
	said   fmt.Stringer
}

func reports(t *testing.T, f func(r *reporting)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &reporting{T: t, around: &around{}, key: podfiles.NewKey(), dir: t.TempDir()}
		task, _, said := task(t, r.around, map[string]string{
			envMetadata: "http://metadata/v4/x", EnvReportQueue: "https://sqs/1/q", EnvReportOf: "web,side",
			EnvReportLives: "job", EnvReportKey: r.key,
			envCredentials: "/c", envRegion: "eu-central-1",
		})
		task.RunDir, r.said = r.dir, said
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); task.report(ctx) }()
		f(r)
		cancel()
		<-done
	})
}

// is writes what a supervisor says of its container, in one step as it does: the reporter
// may look at the same moment. Empty: the container has not started.
func (r *reporting) is(name, text string) {
	r.Helper()
	path := filepath.Join(r.dir, name, healthFile)
	if text == "" {
		must(r.T, os.RemoveAll(path))
		return
	}
	must(r.T, os.MkdirAll(filepath.Dir(path), 0o700))
	must(r.T, os.WriteFile(path+".new", []byte(text), 0o600))
	must(r.T, os.Rename(path+".new", path))
}

// wants waits a second, in which just these messages come.
func (r *reporting) wants(want ...string) { r.Helper(); r.within(time.Second, want...) }

func (r *reporting) within(d time.Duration, want ...string) {
	r.Helper()
	time.Sleep(d)
	r.around.mu.Lock()
	defer r.around.mu.Unlock()
	var got []string
	seq := int64(0)
	for _, body := range r.around.told {
		said, verify, ok := ReadReadiness(body)
		if !ok || verify(r.key) != nil || said.Task != "arn:task" || said.Seq <= seq {
			r.Errorf("%q", body)
		}
		seq = said.Seq
		text := ""
		for _, name := range []string{"web", "side"} {
			switch v := said.Ready[name]; {
			case v == nil:
				text += "?"
			case *v:
				text += "+"
			default:
				text += "-"
			}
		}
		got = append(got, text)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		r.Errorf("told %v, want %v", got, want)
	}
	r.around.told = nil
}

func TestReadinessIsToldAsItChanges(t *testing.T) {
	reports(t, func(r *reporting) {
		r.wants() // nothing was found yet
		r.is("web", pendingReady)
		r.wants()
		r.is("web", healthy)
		r.wants("+?")
		r.is("side", "Readiness probe failed: no")
		r.wants("+-")
		r.is("web", "") // it is started again
		r.wants("--")
		r.is("web", pendingStart)
		r.is("side", healthy)
		r.wants("-+")
		r.is("side", containerEnded)
		r.wants("--")
		r.within(20*time.Second, "--") // told again
		r.within(15*time.Minute, "--", "--", "--")
	})
}

func TestReadinessOutlivesAQueueThatDoesNotAnswer(t *testing.T) {
	reports(t, func(r *reporting) {
		r.around.mu.Lock()
		r.around.deaf = 403
		r.around.mu.Unlock()
		r.is("web", healthy)
		r.within(time.Hour)
		r.around.mu.Lock()
		if r.around.calls > 30 || strings.Count(r.said.String(), "sqs:SendMessage") != 1 {
			t.Errorf("%d calls, said %q", r.around.calls, r.said)
		}
		r.around.deaf = 0
		r.around.mu.Unlock()
		r.within(readyRetryMost+time.Second, "+?", "+?") // and told again
	})
}

// What is not of the task that it names is nobody's word.
func TestForgedReadinessIsTold(t *testing.T) {
	key := podfiles.NewKey()
	body, err := Readiness{Task: "arn:task", Seq: 1, Ready: map[string]*bool{"web": new(true)}}.Sign(key)
	must(t, err)
	_, verify, ok := ReadReadiness(body)
	if !ok || verify(key) != nil || verify(podfiles.NewKey()) == nil || verify("") == nil {
		t.Error("the key does not tell")
	}
	if _, verify, ok = ReadReadiness(strings.Replace(body, "true", "false", 1)); !ok || verify(key) == nil {
		t.Error("a changed one is believed")
	}
	for _, other := range []string{
		"", "<xml/>", `{"source":"aws.ecs"}`, `{"burstletReadiness":"x"}`, strings.Repeat(" ", maxReadiness) + body,
	} {
		if _, _, ok := ReadReadiness(other); ok {
			t.Errorf("%.40q is read", other)
		}
	}
}
