package ecs

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
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
