package intask

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// lives writes what a supervisor says of its container.
func (r *reporting) lives(name string, l Life) {
	r.Helper()
	dir := filepath.Join(r.dir, name)
	must(r.T, os.MkdirAll(dir, 0o700))
	must(r.T, l.write(dir))
}

// told is the last message; false: none came since it was asked for.
func (r *reporting) told(after time.Duration) (Readiness, bool) {
	r.Helper()
	time.Sleep(after)
	r.around.mu.Lock()
	defer r.around.mu.Unlock()
	all := r.around.told
	r.around.told = nil
	if len(all) == 0 {
		return Readiness{}, false
	}
	said, verify, ok := ReadReadiness(all[len(all)-1])
	if !ok || verify(r.key) != nil {
		r.Errorf("%q", all)
	}
	return said, true
}

func TestEndsAreTold(t *testing.T) {
	reports(t, func(r *reporting) {
		if said, ok := r.told(time.Minute); ok {
			t.Errorf("told %+v", said)
		}
		begun := time.Now()
		r.lives("job", Life{Started: begun})
		if said, ok := r.told(6 * time.Minute); ok {
			t.Errorf("a start is ECS's to tell: %+v", said)
		}
		end := &End{At: time.Now(), Exit: 3, Report: Report{Exit: 3, Message: "bye"}}
		r.lives("job", Life{Started: begun, Ended: end})
		said, _ := r.told(time.Second)
		got := said.Lives["job"].Ended
		if got == nil || !got.At.Equal(end.At) || got.Exit != 3 || got.Report.Message != "bye" ||
			!said.Lives["job"].Started.Equal(begun) {
			t.Errorf("ended: %+v", said)
		}
		must(t, os.WriteFile(filepath.Join(r.dir, "job", lifeFile), []byte("garbage"), 0o600))
		if said, _ := r.told(20 * time.Second); said.Lives["job"].Ended == nil {
			t.Error("an end was taken back")
		}
	})
}

// What ends a container may end its task, and with it the agent.
func TestTheAgentTellsALastTime(t *testing.T) {
	var around *around
	reports(t, func(r *reporting) {
		around = r.around
		time.Sleep(time.Millisecond) // it has looked
		r.lives("job", Life{Started: time.Now(), Ended: &End{At: time.Now()}})
	})
	if len(around.told) == 0 {
		t.Errorf("told %q", around.told)
	}
}

func TestASupervisorSaysWhenItsContainerStartedAndHowItEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		argv    []string
		exit    int
		started bool
	}{
		"it ran":       {[]string{"sh", "-c", "exit 3"}, 3, true},
		"it never ran": {[]string{"no-such"}, 127, false},
	} {
		b := newBox(t)
		begun := time.Now()
		_, report := b.runs(Spec{}, c.argv...)
		var got Life
		must(t, json.Unmarshal([]byte(b.read(filepath.Join("run", lifeFile))), &got))
		if got.Ended == nil || got.Ended.Exit != c.exit || got.Ended.Report != report || got.Ended.At.Before(begun) {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Started.IsZero() == c.started || got.Ended != nil && got.Ended.At.Before(got.Started) {
			t.Errorf("%s: started %s", name, got.Started)
		}
	}
}

// Each life costs one message, that of its end: nothing is said of a start.
func TestASupervisorSaysNothingOfAStart(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.runs(
		Spec{}, "sh", "-c", `until test -e "$1"; do sleep .01; done; test ! -e "$2"`, "sh", b.path("run/"+healthFile),
		b.path("run/"+lifeFile),
	)
	var got Life
	must(t, json.Unmarshal([]byte(b.read(filepath.Join("run", lifeFile))), &got))
	if got.Ended == nil || got.Ended.Exit != 0 {
		t.Errorf("%+v", got)
	}
}

func TestALongReportKeepsItsBound(t *testing.T) {
	dir := t.TempDir()
	must(t, Life{Ended: &End{Report: Report{Message: string(make([]byte, 100<<10))}}}.write(dir))
	info, err := os.Stat(filepath.Join(dir, lifeFile))
	must(t, err)
	if info.Size() > maxReport+1<<10 {
		t.Errorf("%d bytes", info.Size())
	}
}
