package ecs

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/background"
)

// swept sweeps until there is nothing, and returns what was named.
func swept(t *testing.T, b backend.Backend) []string {
	t.Helper()
	var all []string
	for range 1000 {
		removed, err := b.Sweep(t.Context())
		all = append(all, removed...)
		if err == nil && len(removed) == 0 {
			return all
		}
		if err != nil && backend.Class(err) != "Throttled" {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	t.Fatal("it is never swept")
	return nil
}

func TestANodeThatIsRemovedLeavesNoSecretAndNoDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{Throttles: true})
		b := open(t, richConfig(s))
		other := richConfig(s)
		other.NodeIdentity = "cluster-uid/another"
		theirs := open(t, other)
		must(t, theirs.Pods.Launch(t.Context(), t.Context(), richSpec("theirs", 0)))
		for i := range 30 { // more than the bucket of registrations has tokens
			spec := richSpec("a", i)
			spec.Containers[0].Container.WorkingDir = "/" + strings.Repeat("d", i)
			must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
			gone(t, b, spec.Ref())
		}
		again := open(t, richConfig(s)) // a process that knows only what AWS shows
		removed := swept(t, again)
		if got := kinds(s); got != "1 salt, 2 shared, 1 pod" || statuses(s)["ACTIVE"] != 1 || statuses(s)["INACTIVE"] != 0 {
			t.Errorf("besides the other node's: %s, definitions %v", got, statuses(s))
		}
		if n := len(removed); n != 3+2*30 { // secrets, families, their revisions
			t.Errorf("%d things were named: %v", n, removed)
		}
	})
}

func TestNothingIsSweptWhileATaskLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{})
		b := open(t, richConfig(s))
		must(t, b.Pods.Launch(t.Context(), t.Context(), richSpec("a", 0)))
		removed, err := b.Sweep(t.Context())
		if len(removed) != 0 || err == nil || !strings.HasPrefix(err.Error(), "1 tasks of this node are live: arn:") {
			t.Errorf("%v, %v", removed, err)
		}
		if got := kinds(s); got != "1 salt, 2 shared, 1 pod" || statuses(s)["ACTIVE"] != 1 {
			t.Errorf("%s, definitions %v", got, statuses(s))
		}
	})
}

// ListSecrets does not show what was made and deleted in the last five minutes: what a
// process that was killed may have made is waited for, and nothing else.
func TestASweepFindsWhatIsNotListedYet(t *testing.T) {
	// process is one before the sweep: each launches a pod, and removes it where it ended well.
	type process struct {
		// killed between CreateSecret and RunTask
		killed bool
		lived  time.Duration
	}
	for name, tt := range map[string]struct {
		before   []process
		from, to time.Duration
	}{
		"nothing was ever made":       {nil, 0, time.Second},
		"it ended well":               {[]process{{false, time.Second}}, 0, time.Minute},
		"both ended well":             {[]process{{false, time.Second}, {false, time.Second}}, 0, time.Minute},
		"it was killed":               {[]process{{true, time.Second}}, 5 * time.Minute, 7 * time.Minute},
		"it was killed after a while": {[]process{{true, time.Hour}}, 5 * time.Minute, 7 * time.Minute},
		"it was killed, the next ended soon": {
			[]process{{true, 0}, {false, 2 * time.Minute}}, 3 * time.Minute, 5 * time.Minute,
		},
		"it was killed, the next ended later": {[]process{{true, 0}, {false, time.Hour}}, 0, time.Minute},
		"the next was killed":                 {[]process{{false, time.Second}, {true, 0}}, 5 * time.Minute, 7 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stub.New(stub.Config{})
				for i, p := range tt.before {
					b, spec := open(t, richConfig(s)), richSpec("a", i)
					s.Shortage("", "", p.killed)
					if p.killed {
						wantClass(t, b.Pods.Launch(t.Context(), t.Context(), spec), "Capacity")
						time.Sleep(p.lived)
						continue
					}
					stop := background.Run(t, b.RunFreely)
					must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
					gone(t, b, spec.Ref())
					time.Sleep(p.lived)
					stop()
				}
				begun := time.Now()
				swept(t, open(t, richConfig(s)))
				if took := time.Since(begun); took < tt.from || took > tt.to {
					t.Errorf("it took %s, want %s to %s", took, tt.from, tt.to)
				}
				if got := kinds(s); got != "0 salt, 0 shared, 0 pod" {
					t.Errorf("left: %s", got)
				}
			})
		})
	}
}

// A sweep that is interrupted is gone on with, and does not wait anew.
func TestASweepThatWasInterruptedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{})
		s.Shortage("", "", true)
		wantClass(t, open(t, richConfig(s)).Pods.Launch(t.Context(), t.Context(), richSpec("a", 0)), "Capacity")
		begun := time.Now()
		for range 3 {
			b := open(t, richConfig(s))
			removed, err := b.Sweep(t.Context())
			if len(removed) > 0 { // what its definition names
				_, err = b.Sweep(t.Context())
			}
			wantClass(t, err, "Throttled")
			if !strings.Contains(err.Error(), "looked for again at 00:06:00 UTC") {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		}
		swept(t, open(t, richConfig(s)))
		if took := time.Since(begun); took > 7*time.Minute || kinds(s) != "0 salt, 0 shared, 0 pod" {
			t.Errorf("it took %s; left: %s", took, kinds(s))
		}
	})
}
