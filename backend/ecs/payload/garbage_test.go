package payload

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

// Only what nobody wants is garbage: by its name, its age, and what this process did with it.
func TestWhatIsGarbageOfPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, spec := newHeld(), launching(nil, noise(60_000))
		p := storeOf(h, "")
		h.pages = 1
		if _, err := p.Ensure(t.Context(), t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		stored, begun := len(h.values), time.Now()
		parts := stored - 1 // without the salt
		time.Sleep(time.Hour)
		key, other := identity.KeyOf(spec.Ref()), identity.Key{UID: "other"}
		for name, tc := range map[string]struct {
			live   identity.Key
			before time.Time
			store  *Store
			want   int
		}{
			"it lives":                     {key, time.Now(), p, 0},
			"another lives":                {other, time.Now(), p, parts},
			"another attempt lives":        {identity.Key{UID: key.UID, Attempt: 1}, time.Now(), p, parts},
			"too new":                      {other, begun.Add(-1), p, 0},
			"another process knows of all": {other, time.Now(), storeOf(h, ""), parts},
		} {
			all, err := tc.store.List(t.Context())
			if err != nil || len(all) != stored {
				t.Fatalf("%v, %v", all, err)
			}
			if got := tc.store.UnusedOfPods(all, map[identity.Key]bool{tc.live: true}, tc.before); len(got) != tc.want {
				t.Errorf("%s: %v", name, got)
			}
		}
		all, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		unused := p.UnusedOfPods(all, nil, time.Now())
		time.Sleep(time.Second)
		if _, err := p.Ensure(t.Context(), t.Context(), spec); err != nil { // launched again meanwhile
			t.Fatal(err)
		}
		removes := func(unused []Unused, there bool) {
			for _, u := range unused {
				if err := u.Remove(t.Context()); err != nil || (h.values[u.Name] != "") != there {
					t.Errorf("%s is there: %t, want %t: %v", u.Name, !there, there, err)
				}
			}
		}
		removes(unused, true) // it is wanted
		time.Sleep(time.Second)
		removes(p.UnusedOfPods(all, nil, time.Now()), false)
		if _, err := p.Ensure(t.Context(), t.Context(), spec); err != nil || len(h.values) != stored {
			t.Errorf("launched after the collection: %d of %d, %v", len(h.values), stored, err)
		}
	})
}

func TestWhatIsGarbageOfShapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld()
		p := storeOf(h, "")
		refs, err := p.Ensure(t.Context(), t.Context(), withSecretEnv("v"))
		if err != nil {
			t.Fatal(err)
		}
		secret, salt := strings.TrimPrefix(refs.EnvARN, "arn:"), Prefix("node")+kindSalt
		time.Sleep(time.Hour)
		names := func(unused []Unused) (out []string) {
			for _, u := range unused {
				out = append(out, u.Name)
			}
			return out
		}
		all, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		onlySalt := slices.DeleteFunc(slices.Clone(all), func(s Secret) bool { return s.Name != salt })
		for name, tc := range map[string]struct {
			secrets []Secret
			named   string
			before  time.Time
			want    []string
		}{
			"a definition names it":        {all, refs.EnvARN, time.Now(), nil},
			"none does":                    {all, "", time.Now(), []string{secret}},
			"too new":                      {all, "", time.Now().Add(-2 * time.Hour), nil},
			"the salt is left":             {onlySalt, "", time.Now(), []string{salt}},
			"the salt of a node that came": {onlySalt, "", time.Now().Add(-2 * time.Hour), nil},
		} {
			if got := names(p.UnusedShared(tc.secrets, map[string]bool{tc.named: true}, tc.before)); !slices.Equal(got,
				tc.want) {
				t.Errorf("%s: %v, want %v", name, got, tc.want)
			}
		}
		// The salt stays while this process has names of it.
		for _, u := range p.UnusedShared(onlySalt, nil, time.Now()) {
			if err := u.Remove(t.Context()); err != nil || h.values[salt] == "" {
				t.Errorf("the salt is gone: %v", err)
			}
		}
		for _, secrets := range [][]Secret{all, onlySalt} {
			for _, u := range p.UnusedShared(secrets, nil, time.Now()) {
				if err := u.Remove(t.Context()); err != nil || h.values[u.Name] != "" {
					t.Errorf("%s is left: %v", u.Name, err)
				}
			}
		}
		if len(h.values) > 0 {
			t.Errorf("left: %v", h.values)
		}
	})
}

// A listing that fails anywhere says nothing, and what is removed before a failure is told.
func TestListingsAreWholeOrNothing(t *testing.T) {
	for _, fails := range []string{"List", "ListObjects", "Delete", "DeleteObject"} {
		h := newHeld()
		secrets, objects := storeOf(h, ""), storeOf(h, "b")
		for _, p := range []*Store{secrets, objects} {
			if _, err := p.Ensure(t.Context(), t.Context(), launching(nil, []byte("a"))); err != nil {
				t.Fatal(err)
			}
		}
		h.errors[fails] = awsError("AccessDeniedException")
		if all, err := objects.List(t.Context()); strings.HasPrefix(fails, "List") &&
			(!errors.Is(err, backend.ErrDenied) || all != nil) {
			t.Errorf("%s: %v, %v", fails, all, err)
		}
		if removed, err := objects.Sweeper().Sweep(t.Context(), nil); !errors.Is(err, backend.ErrDenied) || len(removed) > 1 {
			t.Errorf("%s: removed %v, %v", fails, removed, err)
		}
	}
}
