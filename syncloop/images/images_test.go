package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

type store struct {
	mu      sync.Mutex
	has     map[string]bool
	pullErr error
	findErr error
	takes   time.Duration
	pulls   int
	at      int
	most    int
}

func (s *store) Find(_ context.Context, image string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.findErr != nil {
		return "", s.findErr
	}
	if s.has[image] {
		return "id-" + image, nil
	}
	return "", backend.ErrNotFound
}

func (s *store) Pull(ctx context.Context, image string, _ []backend.Credential) (string, error) {
	s.mu.Lock()
	s.pulls++
	s.at++
	s.most = max(s.most, s.at)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.at--
		s.mu.Unlock()
	}()
	select {
	case <-time.After(s.takes):
		return "id-" + image, s.pullErr
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func TestEnsure(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy corev1.PullPolicy
		s      *store
		reason string
		pulls  int
		events []string
	}{
		{name: "present", policy: "IfNotPresent", s: &store{has: map[string]bool{"i": true}}, events: []string{"Pulled"}},
		{name: "absent", policy: "IfNotPresent", pulls: 1, events: []string{"Pulling", "Pulled"}},
		{name: "always", policy: "Always", s: &store{has: map[string]bool{"i": true}}, pulls: 1, events: []string{"Pulling", "Pulled"}},
		{name: "never, present", policy: "Never", s: &store{has: map[string]bool{"i": true}}, events: []string{"Pulled"}},
		{name: "never, absent", policy: "Never", reason: "ErrImageNeverPull", events: []string{"ErrImageNeverPull"}},
		{name: "registry refuses", policy: "Always", s: &store{pullErr: errors.New("no such manifest")}, pulls: 1, reason: "ErrImagePull", events: []string{"Pulling", "Failed"}},
		{name: "bad name", policy: "Always", s: &store{pullErr: backend.ErrInvalid}, pulls: 1, reason: "InvalidImageName", events: []string{"Pulling", "InspectFailed"}},
		{name: "bad name found out before", policy: "IfNotPresent", s: &store{findErr: backend.ErrInvalid}, reason: "InvalidImageName", events: []string{"InspectFailed"}},
		{name: "cannot look", policy: "IfNotPresent", s: &store{findErr: backend.ErrUnavailable}, reason: "ImageInspectError"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := tt.s
				if s == nil {
					s = &store{}
				}
				var events []string
				event := func(_, reason, _ string, _ ...any) { events = append(events, reason) }
				id, err := New(s, 2, time.Minute).Ensure(t.Context(), &corev1.Container{Image: "i", ImagePullPolicy: tt.policy}, event)
				if got := Reason(err); got != tt.reason || (err == nil) != (tt.reason == "") || (err == nil) != (id == "id-i") {
					t.Errorf("id %q, reason %q, error %v", id, got, err)
				}
				if s.pulls != tt.pulls || !slices.Equal(events, tt.events) {
					t.Errorf("%d pulls, events %v", s.pulls, events)
				}
			})
		})
	}
}

func TestPullsAreSharedAndLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{takes: time.Minute}
		p := New(s, 2, time.Hour)
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				c := &corev1.Container{Image: fmt.Sprint("i", i%4), ImagePullPolicy: corev1.PullAlways}
				if _, err := p.Ensure(t.Context(), c, func(string, string, string, ...any) {}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if s.pulls != 4 || s.most != 2 {
			t.Errorf("%d pulls of 4 images, %d at once", s.pulls, s.most)
		}
	})
}

// TestLeavingEndsThePull: a pull ends with the last who waits for it, not with
// the first who leaves.
func TestLeavingEndsThePull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{takes: time.Hour}
		p := New(s, 2, 2*time.Hour)
		c := &corev1.Container{Image: "i", ImagePullPolicy: corev1.PullAlways}
		quiet := func(string, string, string, ...any) {}
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		for _, ctx := range []context.Context{first, second} {
			go func() { _, err := p.Ensure(ctx, c, quiet); errs <- err }()
		}
		synctest.Wait()
		leave()
		if err := <-errs; Reason(err) != "" || !errors.Is(err, backend.ErrThrottled) {
			t.Errorf("who leaves gets %v", err)
		}
		if s.at != 1 {
			t.Error("the pull ended though one still waits")
		}
		leaveToo()
		if err := <-errs; !errors.Is(err, backend.ErrThrottled) {
			t.Errorf("the last who leaves gets %v", err)
		}
		synctest.Wait()
		if s.at != 0 {
			t.Error("the pull goes on for nobody")
		}
	})
}
