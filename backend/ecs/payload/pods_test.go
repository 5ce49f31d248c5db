package payload

import (
	"testing"

	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

func TestNamesOfSecretsTellTheirAttempt(t *testing.T) {
	s := newSecretStore(nil, "node")
	p := podSecrets{store: s, entries: map[identity.Key][]*podSecret{}}
	for uid, want := range map[string]string{"5d0d3b9c-0000-4000-8000-000000000000": "5d0d3b9c-0000-4000-8000-000000000000", "a/b": string(safeUID("a/b"))} {
		name := p.newName(identity.Key{UID: ktypes.UID(uid), Attempt: 12}, 3, 2)
		all, err := intask.AllNames(name)
		if err != nil || len(all) != 6 {
			t.Fatalf("%v, %v", all, err)
		}
		for _, n := range all {
			if k, ok := s.podKey(n); !ok || string(k.UID) != want || k.Attempt != 12 {
				t.Errorf("%s is of %v, %v", n, k, ok)
			}
		}
	}
	for _, name := range []string{"", "x", s.prefix + "pod/u", s.prefix + "pod/u/x.a.1", s.prefix + "shared/env.x", "burstlet/other/pod/u/0.a.1"} {
		if k, ok := s.podKey(name); ok {
			t.Errorf("%s is of %v", name, k)
		}
	}
}
