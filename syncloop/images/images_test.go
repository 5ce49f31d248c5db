package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	creds   [][]backend.Credential
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

func (s *store) Pull(ctx context.Context, image string, creds []backend.Credential) (backend.PulledImage, error) {
	s.mu.Lock()
	s.pulls++
	s.creds = append(s.creds, creds)
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
		return backend.PulledImage{ID: "id-" + image, Size: 2345678}, s.pullErr
	case <-ctx.Done():
		return backend.PulledImage{}, ctx.Err()
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
		{
			name: "always", policy: "Always", s: &store{has: map[string]bool{"i": true}}, pulls: 1,
			events: []string{"Pulling", "Pulled"},
		},
		{name: "never, present", policy: "Never", s: &store{has: map[string]bool{"i": true}}, events: []string{"Pulled"}},
		{
			name: "never, absent", policy: "Never", reason: "ErrImageNeverPull", events: []string{"ErrImageNeverPull", "Failed"},
		},
		{
			name: "registry refuses", policy: "Always", s: &store{pullErr: errors.New("no such manifest")}, pulls: 1,
			reason: "ErrImagePull", events: []string{"Pulling", "Failed", "Failed"},
		},
		{
			name: "bad name", policy: "Always", s: &store{pullErr: backend.ErrInvalid}, pulls: 1, reason: "InvalidImageName",
			events: []string{"Pulling", "InspectFailed", "Failed"},
		},
		{
			name: "bad name found out before", policy: "IfNotPresent", s: &store{findErr: backend.ErrInvalid},
			reason: "InvalidImageName", events: []string{"InspectFailed", "Failed"},
		},
		{
			name: "runtime fails to look", policy: "IfNotPresent", s: &store{findErr: errors.New("disk full")},
			reason: "ImageInspectError", events: []string{"InspectFailed", "Failed"},
		},
		{
			name: "registry down", policy: "Always",
			s: &store{pullErr: errors.New("pull: rpc error: code = Unknown desc = RegistryUnavailable: 503")}, pulls: 1,
			reason: "RegistryUnavailable", events: []string{"Pulling", "Failed", "Failed"},
		},
		{
			name: "bad signature", policy: "Always", s: &store{pullErr: errors.New("SignatureValidationFailed: no key")},
			pulls: 1, reason: "SignatureValidationFailed", events: []string{"Pulling", "Failed", "Failed"},
		},
		{
			name: "cannot look", policy: "IfNotPresent", s: &store{findErr: backend.ErrUnavailable}, reason: "ImageInspectError",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := tt.s
				if s == nil {
					s = &store{}
				}
				var events []string
				event := func(_, reason, _ string, _ ...any) { events = append(events, reason) }
				id, err := New(s, nil, 2, time.Minute).EnsureImageExists(t.Context(), Wanted{Image: "i", Policy: tt.policy}, event)
				ReportFailed(err, event)
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

// TestWords: what the user reads is what a kubelet says.
func TestWords(t *testing.T) {
	never := Wanted{Image: "i", Policy: corev1.PullNever}
	always := Wanted{Image: "i", Policy: corev1.PullAlways}
	for _, tt := range []struct {
		name                   string
		c                      Wanted
		s                      *store
		reason, waiting, event string
	}{
		{
			"a name that cannot be",
			Wanted{Image: "I/x:", Policy: corev1.PullNever},
			&store{}, "InvalidImageName",
			`Failed to apply default image tag "I/x:": couldn't parse image name "I/x:": invalid reference format`, "",
		},
		{
			"a name in capitals",
			Wanted{Image: "Nginx"},
			&store{}, "InvalidImageName",
			`Failed to apply default image tag "Nginx": couldn't parse image name "Nginx": invalid reference format: repository name (library/Nginx) must be lowercase`,
			"",
		},
		{"absent", never, &store{}, "ErrImageNeverPull", `Container image "i" is not present with pull policy of Never`, ""},
		{
			"the runtime fails to look", never, &store{findErr: errors.New("bang")}, "ImageInspectError",
			`Failed to inspect image "i": bang`, "",
		},
		{
			"the registry refuses", always, &store{pullErr: errors.New("401")}, "ErrImagePull", "401",
			`Failed to pull image "i": 401`,
		},
		{
			"the registry is down", always, &store{pullErr: errors.New("RegistryUnavailable: 503")}, "RegistryUnavailable",
			"image pull failed for i because the registry is unavailable: 503",
			`Failed to pull image "i": RegistryUnavailable: 503`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var before, last string
				event := func(_, _, format string, args ...any) { before, last = last, fmt.Sprintf(format, args...) }
				_, err := New(tt.s, nil, 0, 0).EnsureImageExists(t.Context(), tt.c, event)
				ReportFailed(err, event)
				if tt.event == "" {
					tt.event = tt.waiting
				}
				if Reason(err) != tt.reason || err.Error() != tt.waiting || before != tt.event || last != "Error: "+tt.reason {
					t.Errorf("%s: %q, events %q and %q", Reason(err), err, before, last)
				}
				if want := tt.s.pullErr != nil; PullFailed(Reason(err)) != want {
					t.Errorf("backs off: %v", !want)
				}
			})
		})
	}
}

// TestPulledTellsTimeAndSize, as a kubelet does.
func TestPulledTellsTimeAndSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last string
		s, w := &store{takes: 1234567 * time.Microsecond}, Wanted{Image: "i", Policy: corev1.PullAlways}
		if _, err := New(s, nil, 1, 0).EnsureImageExists(t.Context(), w, func(_, _, format string, args ...any) {
			last = fmt.Sprintf(format, args...)
		}); err != nil {
			t.Fatal(err)
		}
		want := `Successfully pulled image "i" in 1.234s (1.234s including waiting). Image size: 2345678 bytes.`
		if last != want {
			t.Errorf("the Event says %q, want %q", last, want)
		}
	})
}

// TestARemoteThatCannotBeAskedSaysNothing: the transport's failure is not the
// image's.
func TestARemoteThatCannotBeAskedSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{pullErr: backend.Errorf(backend.ErrUnavailable, "connection lost")}
		var events []string
		_, err := New(s, nil, 1, 0).EnsureImageExists(t.Context(), Wanted{Image: "i", Policy: corev1.PullAlways},
			func(_, reason, _ string, _ ...any) { events = append(events, reason) })
		if Reason(err) != "" || !errors.Is(err, backend.ErrUnavailable) || !slices.Equal(events, []string{"Pulling"}) {
			t.Errorf("%v, events %v", err, events)
		}
	})
}

// TestPullsAreSharedAmongEqualLogins: who has another login, or none, does not
// get in by another's pull.
func TestPullsAreSharedAmongEqualLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{takes: time.Minute}
		p := New(s, nil, 9, time.Hour)
		var wg sync.WaitGroup
		for _, login := range []string{"", "ann p", "ann p", "ann q", "bob p", ""} {
			var creds []backend.Credential
			if user, password, ok := strings.Cut(login, " "); ok {
				creds = []backend.Credential{{Username: user, Password: password}}
			}
			for _, image := range []string{"i", "docker.io/library/i:latest"} {
				wg.Go(func() {
					w := Wanted{Image: image, Policy: corev1.PullAlways, Credentials: creds}
					if _, err := p.EnsureImageExists(t.Context(), w, func(string, string, string, ...any) {}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		var logins []string
		for _, creds := range s.creds {
			name := ""
			for _, c := range creds {
				name += c.Username + " " + c.Password
			}
			logins = append(logins, name)
		}
		slices.Sort(logins)
		if !slices.Equal(logins, []string{"", "ann p", "ann q", "bob p"}) {
			t.Errorf("pulls by login: %q", logins)
		}
	})
}

func TestNoParallelPullsMeansOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{takes: time.Minute}
		p := New(s, nil, 0, 0)
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				w := Wanted{Image: fmt.Sprint("i", i), Policy: corev1.PullAlways}
				_, err := p.EnsureImageExists(t.Context(), w, func(_, reason, format string, args ...any) {
					if text := fmt.Sprintf(format, args...); reason == "Pulled" && !strings.Contains(text, " in 1m0s (") {
						t.Errorf("waiting is counted as pulling: %s", text)
					}
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if s.most != 1 {
			t.Errorf("%d pulls at once", s.most)
		}
	})
}

func TestPullsAreSharedAndLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{takes: time.Minute}
		p := New(s, nil, 2, time.Hour)
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				w := Wanted{Image: fmt.Sprint("i", i%4), Policy: corev1.PullAlways}
				if _, err := p.EnsureImageExists(t.Context(), w, func(string, string, string, ...any) {}); err != nil {
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
		p := New(s, nil, 2, 2*time.Hour)
		w := Wanted{Image: "i", Policy: corev1.PullAlways}
		quiet := func(string, string, string, ...any) {}
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		for _, ctx := range []context.Context{first, second} {
			go func() { _, err := p.EnsureImageExists(ctx, w, quiet); errs <- err }()
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

// TestPresent: a look ahead finds what EnsureImageExists would use as it is, pulls
// nothing and tells nobody.
func TestPresent(t *testing.T) {
	there := map[string]bool{"i": true}
	for _, tt := range []struct {
		name   string
		image  string
		policy corev1.PullPolicy
		s      *store
		want   string
	}{
		{"there", "i", corev1.PullIfNotPresent, &store{has: there}, "id-i"},
		{"there, never pulled", "i", corev1.PullNever, &store{has: there}, "id-i"},
		{"there, but pulled each time", "i", corev1.PullAlways, &store{has: there}, ""},
		{"not there", "i", corev1.PullIfNotPresent, &store{}, ""},
		{"no name", "I:I:I", corev1.PullIfNotPresent, &store{has: map[string]bool{"I:I:I": true}}, ""},
		{"the runtime fails", "i", corev1.PullIfNotPresent, &store{findErr: errors.New("disk full")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := New(tt.s, nil, 1, 0).Present(t.Context(), Wanted{Image: tt.image, Policy: tt.policy})
			if got != tt.want || tt.s.pulls != 0 {
				t.Errorf("%q and %d pulls, want %q", got, tt.s.pulls, tt.want)
			}
		})
	}
}
