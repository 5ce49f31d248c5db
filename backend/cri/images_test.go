package cri

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

func TestFindAndPull(t *testing.T) {
	w := newWorld(t)
	r, _ := w.connect(t)
	i := r.puller
	_, err := i.Find(t.Context(), "reg.test/app")
	wantClass(t, err, backend.ErrNotFound)
	pulled, err := i.Pull(t.Context(), "reg.test/app", nil)
	must(t, err)
	found, err := i.Find(t.Context(), "reg.test/app")
	must(t, err)
	if pulled.ID != "sha256:reg.test/app:latest" || found != pulled.ID || pulled.Size == 0 {
		t.Errorf("pulled %+v, found %q", pulled, found)
	}
	_, err = i.Pull(t.Context(), "UPPER", nil)
	wantClass(t, err, backend.ErrInvalid)
}

// The texts are the kubelet's: gRPC's words but for the code Unknown, and one
// error for each login that was tried, each text once.
func TestPullErrors(t *testing.T) {
	creds := []backend.Credential{{Password: "hidden-1"}, {Password: "hidden-2"}}
	for name, tt := range map[string]struct {
		answers []error
		creds   []backend.Credential
		class   string
		want    string
	}{
		"refused": {[]error{errors.New("pull access denied")}, nil, "Transient", "pull access denied"},
		"no such tag": {
			[]error{status.Error(codes.NotFound, "no such tag")},
			nil, "Transient",
			"rpc error: code = NotFound desc = no such tag",
		},
		"two logins":      {[]error{errors.New("one"), errors.New("two")}, creds, "Transient", "[one, two]"},
		"refused equally": {[]error{errors.New("one"), errors.New("one")}, creds, "Transient", "one"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *fakecri.Server) {
				s.Before = func(_ context.Context, method string, _ any) error {
					if method != "PullImage" {
						return nil
					}
					return tt.answers[s.Calls(method)-1]
				}
			})
			r, _ := w.connect(t)
			_, err := r.puller.Pull(t.Context(), "reg.test/app", tt.creds)
			if backend.Class(err) != tt.class || err.Error() != tt.want {
				t.Errorf("%s: %v, want %s: %s", backend.Class(err), err, tt.class, tt.want)
			}
		})
	}
}

// Logins are tried in their order, without the server: containerd would compare
// it with the mirror that it asks.
func TestPullTriesLoginsInTurn(t *testing.T) {
	const image = "reg.test/private:1"
	w := newWorld(t, func(s *fakecri.Server) { s.Refused[image] = "no" })
	r, _ := w.connect(t)
	creds := []backend.Credential{
		{Registry: "reg.test", Username: "u", Password: "wrong"},
		{Registry: "reg.test", Username: "v", Password: "right"},
		{Registry: "reg.test", Username: "w", Password: "never asked"},
	}
	_, err := r.puller.Pull(t.Context(), image, creds)
	must(t, err)
	asked := w.fake.Auths()
	if len(asked) != 2 {
		t.Fatalf("%d tries, want 2", len(asked))
	}
	for n, a := range asked {
		if a.GetServerAddress() != "" || a.GetUsername() != creds[n].Username || a.GetPassword() != creds[n].Password {
			t.Errorf("try %d was not with login %d", n, n)
		}
	}
	if _, err := r.puller.Pull(t.Context(), image, nil); err == nil || err.Error() != "no" || len(w.fake.Auths()) != 3 {
		t.Errorf("anonymous: %v, %d tries", err, len(w.fake.Auths()))
	}
}
