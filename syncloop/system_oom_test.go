package syncloop_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/fault"
	"github.com/burstlet/burstlet/backend/sim"
)

// oomHost runs f in virtual time with an engine whose calls fail as a script says.
func oomHost(t *testing.T, f func(t *testing.T, a *api, script *fault.Script)) {
	synctest.Test(t, func(t *testing.T) {
		a, script := newAPI(t), &fault.Script{}
		a.remote = sim.New(sim.Config{Record: true})
		a.start(fault.Wrap(a.remote.Backend(), script))
		defer func() { a.stop() }()
		time.Sleep(time.Second)
		f(t, a, script)
		a.audit()
	})
}

func (a *api) wantNodeEvents(want ...string) {
	a.t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.nodeEvents, want) {
		a.t.Errorf("Events of the node %q, want %q", a.nodeEvents, want)
	}
}

// TestSystemOOM: each process that the host's kernel kills is told of once and at once, those
// before the engine began are not, those while the host could not be asked are.
func TestSystemOOM(t *testing.T) {
	oomHost(t, func(t *testing.T, a *api, script *fault.Script) {
		const told = "Warning SystemOOM System OOM encountered, victim process: "
		a.wantNodeEvents()
		a.remote.KillForMemory("mysqld", 1042)
		a.wantNodeEvents(told + "mysqld, pid: 1042")

		// The call under way ends well, the next three do not.
		script.Add(fault.SystemOOMsAwait, 3, fault.Fault{Err: backend.Errorf(backend.ErrUnavailable, "down")})
		a.remote.KillForMemory("first", 1)
		synctest.Wait()
		a.remote.KillForMemory("cut off", 2)
		a.remote.KillForMemory("", 3)
		a.wantNodeEvents(told+"mysqld, pid: 1042", told+"first, pid: 1")
		if n := script.Calls(fault.SystemOOMsAwait); n != 4 {
			t.Errorf("the host was asked %d times, want 4: without a pause", n)
		}
		time.Sleep(31 * time.Second)
		all := []string{
			told + "mysqld, pid: 1042", told + "first, pid: 1", told + "cut off, pid: 2",
			"Warning SystemOOM System OOM encountered",
		}
		a.wantNodeEvents(all...)

		a.stop()
		a.remote.KillForMemory("nobody looks", 4)
		a.start(a.remote.Backend())
		time.Sleep(time.Minute)
		a.wantNodeEvents(all...)
		a.remote.KillForMemory("next", 5)
		a.wantNodeEvents(append(all, told+"next, pid: 5")...)
	})
}

// TestSystemOOMWhereTheHostDoesNotTell: it is said once, and nobody is asked again.
func TestSystemOOMWhereTheHostDoesNotTell(t *testing.T) {
	oomHost(t, func(t *testing.T, a *api, _ *fault.Script) {
		a.stop()
		logged, logger := &bytes.Buffer{}, logrus.New()
		logger.SetOutput(logged)
		script := &fault.Script{}
		script.Add(fault.SystemOOMsAwait, 1, fault.Fault{Err: backend.Errorf(backend.ErrUnsupported, "no kmsg")})
		a.startAs(log.WithLogger(context.Background(), logrus.NewEntry(logger)), fault.Wrap(a.remote.Backend(), script), a)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		asked, said := script.Calls(fault.SystemOOMsAwait), strings.Count(logged.String(), "no kmsg")
		if asked != 1 || said != 1 {
			t.Errorf("asked %d times, said %d times: %s", asked, said, logged)
		}
	})
}
