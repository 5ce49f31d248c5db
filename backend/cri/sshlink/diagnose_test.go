package sshlink

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/test/kit/sshkeys"
)

func findings(w *world, t *testing.T) map[string]string {
	t.Helper()
	if w.server.endpoints["/run/runtime.sock"] != nil {
		w.server.endpoints["/run/runtime.sock"] = serveRuntime(fakecri.New())
	}
	l := newLink(w.cfg.withDefaults(), w.network.DialContext)
	got := map[string]string{}
	for _, f := range l.Diagnose(t.Context(), "/run/runtime.sock") {
		verdict := "FAIL"
		if f.OK {
			verdict = "ok"
		} else if f.Warn {
			verdict = "warn"
		}
		if old, ok := got[f.What]; ok {
			t.Errorf("two findings about %s: %s", f.What, old)
		}
		got[f.What] = fmt.Sprintf("%s: %s; %s", verdict, f.Detail, f.Advice)
	}
	return got
}

func TestDiagnoseFindsNothingWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := findings(newWorld(t), t)
		for _, what := range []string{
			"keys and known hosts", "reachable", "host key", "login", "pty", "sessions", "port forwarding", "runtime socket",
			"runtime", "RuntimeReady", "NetworkReady", "shell", "root", "helper", "clock", "kubelet",
			"cgroups", "kernel", "swap", "disk",
		} {
			if !strings.HasPrefix(got[what], "ok: ") {
				t.Errorf("%s: %q", what, got[what])
			}
			delete(got, what)
		}
		if len(got) > 0 {
			t.Errorf("more: %v", got)
		}
	})
}

func TestDiagnoseNamesWhatAHostLacks(t *testing.T) {
	for name, tc := range map[string]struct {
		change     func(*testing.T, *world)
		what, want string
	}{
		"down": {
			func(_ *testing.T, w *world) { w.network.close(target) }, "reachable",
			"FAIL: " + target + ": dial tcp: connect: connection refused; nothing listens there",
		},
		"changed key": {
			func(t *testing.T, w *world) { w.cfg.KnownHostsFile = sshkeys.Write(t, "known_hosts", 0o600, ecdsaLine) },
			"host key",
			"FAIL: " + target + ": host key has changed",
		},
		"unchecked key": {
			func(_ *testing.T, w *world) { w.cfg.KnownHostsFile, w.cfg.InsecureIgnoreHostKey = "", true }, "host key",
			"warn: is not checked",
		},
		"no key file": {
			func(_ *testing.T, w *world) { w.cfg.KeyFiles = []string{"/absent"} }, "keys and known hosts",
			"FAIL: " + target + ": ssh.keyFiles /absent: no such file",
		},
		"wrong key": {
			func(t *testing.T, w *world) { w.cfg.KeyFiles = []string{sshkeys.File(t, 'o')} }, "login",
			"FAIL: " + target + ": log in as burst@",
		},
		"no pty": {
			func(_ *testing.T, w *world) { w.server.noPTY = true }, "pty",
			"warn: the host grants no pty: each small call takes some milliseconds longer; set PermitTTY yes",
		},
		"few sessions": {
			func(_ *testing.T, w *world) { w.server.maxSessions = 2 }, "sessions",
			"FAIL: session 3 of 3: the host opens no session: open failed",
		},
		"no forwarding": {
			func(_ *testing.T, w *world) { w.server.noTCP = true }, "port forwarding",
			"FAIL: the host's sshd does not forward to 127.0.0.1:1",
		},
		"no runtime": {
			func(_ *testing.T, w *world) { delete(w.server.endpoints, "/run/runtime.sock") }, "runtime socket",
			"FAIL: /run/runtime.sock: connect: no such file or directory; is containerd installed",
		},
		"closed socket": {
			func(_ *testing.T, w *world) { w.server.noSockets, w.server.socketWord = true, "denied" }, "runtime socket",
			"FAIL: /run/runtime.sock: connect: permission denied; burst may not open it",
		},
		"dead runtime": {
			func(_ *testing.T, w *world) { w.server.noSockets, w.server.socketWord = true, "refused" }, "runtime socket",
			"FAIL: /run/runtime.sock: connect: connection refused; nobody listens there: start containerd",
		},
		"no sockets": {
			func(_ *testing.T, w *world) { w.server.noSockets, w.server.socketWord = true, "listening" }, "runtime socket",
			"; set AllowStreamLocalForwarding yes",
		},
		"no shell": {
			func(_ *testing.T, w *world) { w.server.noExec = true }, "shell",
			"FAIL: run a shell on the host: the host runs no command for this user",
		},
		"no sudo": {
			func(_ *testing.T, w *world) { w.server.uid, w.server.noSudo = "1000", true }, "root",
			"FAIL: run sudo -n on the host",
		},
		"sudo": {func(_ *testing.T, w *world) { w.server.uid = "1000" }, "root", "ok: by sudo -n"},
		"noexec": {
			func(_ *testing.T, w *world) { w.server.helperFails = "Permission denied" }, "helper",
			"FAIL: hear from the helper: ",
		},
		"clock": {
			func(_ *testing.T, w *world) { w.server.skew = -time.Hour }, "clock",
			"warn: the host's is -1h0m0s off; run an NTP client",
		},
		"clock a bit off": {func(_ *testing.T, w *world) { w.server.skew = time.Second }, "clock", "ok: 1s off"},
		"another kubelet": {func(_ *testing.T, w *world) {
			w.cfg.NewClient = newFakeClient(host.Facts{Kubelets: []host.Kubelet{
				{PID: 76}, {PID: 77, Endpoint: "unix:///var/run/runtime.sock"},
			}})
		}, "kubelet", "FAIL: one uses the same runtime (process 77)"},
		"a kubelet of another runtime": {func(_ *testing.T, w *world) {
			w.cfg.NewClient = newFakeClient(host.Facts{Kubelets: []host.Kubelet{{PID: 76}}})
		}, "kubelet", "ok: none uses this runtime"},
		"lacks mount": {func(_ *testing.T, w *world) {
			w.cfg.NewClient = newFakeClient(host.Facts{Lacks: []string{"mount: install it"}})
		}, "lacks", "warn: mount; install it"},
		"all but the rest": {func(_ *testing.T, w *world) { w.server.noTCP = true }, "helper", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tc.change(t, w)
				if got := findings(w, t)[tc.what]; !strings.Contains(got, tc.want) {
					t.Errorf("%s: %q, want %q", tc.what, got, tc.want)
				}
			})
		})
	}
}
