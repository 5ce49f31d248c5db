package cri

import (
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
)

func TestNormalize(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for in, want := range map[string]string{
		"busybox":                          "busybox:latest",
		"busybox:1.36":                     "busybox:1.36",
		"library/a":                        "library/a:latest",
		"reg.test:5000/a":                  "reg.test:5000/a:latest",
		"localhost/a/b_c/d__e/f-g/h.i:T_1": "localhost/a/b_c/d__e/f-g/h.i:T_1",
		"HOST/a":                           "HOST/a:latest",
		"[fd00::1]:5000/a:b":               "[fd00::1]:5000/a:b",
		"a@" + digest:                      "a@" + digest,
		"a:tag@" + digest:                  "a:tag@" + digest,
		digest:                             digest,
	} {
		if got, err := normalize(in); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{
		"", ":", "a:", "a@", "/a", "a/", "a//b", "Busybox", "reg.test/App", "a:b:c", "a: b", "a b", "-a", "a:" + strings.Repeat("t", 129),
		"a@sha256:short", "a@b@c", "Not/A:Valid:Name", "reg_.test:x/a", strings.Repeat("a", 256), "a.-b/c d",
	} {
		_, err := normalize(bad)
		wantClass(t, err, backend.ErrInvalid)
		if err != nil && !strings.Contains(err.Error(), bad) {
			t.Errorf("%q is not named: %v", bad, err)
		}
	}
}

func FuzzNormalize(f *testing.F) {
	f.Add("reg.test:5000/a/b:c@sha256:" + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, in string) {
		out, err := normalize(in)
		if err != nil {
			return
		}
		if again, err := normalize(out); err != nil || again != out {
			t.Errorf("%q became %q, which becomes %q, %v", in, out, again, err)
		}
	})
}

func TestFindAndPull(t *testing.T) {
	const refusal = "pull access denied, repository does not exist or may require authorization"
	w := newWorld(t, func(s *fakecri.Server) { s.Refused["reg.test/private:1"] = refusal })
	r, _ := w.connect(t)
	i := images{r}
	_, err := i.Find(t.Context(), "reg.test/app")
	wantClass(t, err, backend.ErrNotFound)
	pulled, err := i.Pull(t.Context(), "reg.test/app", nil)
	must(t, err)
	found, err := i.Find(t.Context(), "reg.test/app")
	must(t, err)
	if pulled != "sha256:reg.test/app:latest" || found != pulled {
		t.Errorf("pulled %q, found %q", pulled, found)
	}
	_, err = i.Pull(t.Context(), "UPPER", nil)
	wantClass(t, err, backend.ErrInvalid)

	_, err = i.Pull(t.Context(), "reg.test/private:1", nil)
	if backend.Class(err) != "Transient" || !strings.Contains(err.Error(), refusal) || strings.Contains(err.Error(), "rpc error") {
		t.Errorf("%s: %v", backend.Class(err), err)
	}
	creds := []backend.Credential{{Registry: "reg.test", Username: "u", Password: "wrong"}, {Registry: "reg.test", Username: "u", Password: "right"}}
	_, err = i.Pull(t.Context(), "reg.test/private:1", creds[:1])
	if err == nil || strings.Contains(err.Error(), "wrong") {
		t.Errorf("%v, want an error without the password", err)
	}
	before := len(w.fake.Auths())
	if _, err := i.Pull(t.Context(), "reg.test/private:1", creds); err != nil || len(w.fake.Auths()) != before+2 {
		t.Errorf("%v after %d tries", err, len(w.fake.Auths())-before)
	}
	if a := w.fake.Auths()[before]; a.GetServerAddress() != "" || a.GetUsername() != "u" {
		t.Errorf("credential %v", a)
	}
}
