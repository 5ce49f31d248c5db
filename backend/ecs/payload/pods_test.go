package payload

import (
	"strings"
	"testing"

	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

func TestNamesOfSecretsTellTheirAttempt(t *testing.T) {
	s := newSecretStore(nil, "node")
	p := podSecrets{store: s, objects: newObjectStore(nil, Place{}, "node"), entries: map[identity.Key][]*podSecret{}}
	for uid, want := range map[string]string{
		"5d0d3b9c-0000-4000-8000-000000000000": "5d0d3b9c-0000-4000-8000-000000000000", "a/b": string(safeUID("a/b")),
	} {
		name := p.newName(identity.Key{UID: ktypes.UID(uid), Attempt: 12}, contents{parts: 3, slots: 2})
		all, err := podfiles.AllNames(name)
		if err != nil || len(all) != 6 {
			t.Fatalf("%v, %v", all, err)
		}
		for _, n := range all {
			if k, ok := p.podKey(n); !ok || string(k.UID) != want || k.Attempt != 12 {
				t.Errorf("%s is of %v, %v", n, k, ok)
			}
		}
	}
	for _, name := range []string{
		"", "x", s.prefix + "pod/u", s.prefix + "pod/u/x.a.1", s.prefix + "shared/env.x",
		"burstlet/other/pod/u/0.a.1",
	} {
		if k, ok := p.podKey(name); ok {
			t.Errorf("%s is of %v", name, k)
		}
	}
}

// Whatever the prefix of keys was when an object was made, its name tells its attempt.
func TestNamesOfObjectsTellTheirAttempt(t *testing.T) {
	for _, keyPrefix := range []string{"", "clusters/one/"} {
		objects := newObjectStore(nil, Place{Bucket: "payloads", KeyPrefix: keyPrefix}, "node")
		p := podSecrets{store: newSecretStore(nil, "node"), objects: objects}
		name := p.newName(identity.Key{UID: "u", Attempt: 3}, contents{parts: 5, slots: 3})
		all, err := podfiles.AllNames(name)
		if err != nil || len(all) != 1 || !strings.HasPrefix(name, "s3://payloads/"+keyPrefix+"burstlet/") {
			t.Errorf("%v, %v", all, err)
		}
		if k, ok := (&podSecrets{store: p.store, objects: newObjectStore(nil, Place{}, "node")}).podKey(name); !ok ||
			k.UID != "u" || k.Attempt != 3 {
			t.Errorf("%s is of %v, %v", name, k, ok)
		}
		if k, ok := (&podSecrets{store: newSecretStore(nil, "another")}).podKey(name); ok {
			t.Errorf("%s is of %v of another node", name, k)
		}
	}
}
