package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWithDefaults(t *testing.T) {
	tests := map[string]struct {
		in              Config
		bind, advertise string
		err             string
	}{
		"zero":          {in: Config{}, bind: loopback, advertise: unreachableAddress},
		"one address":   {in: Config{BindAddress: "10.1.2.3"}, bind: "10.1.2.3", advertise: "10.1.2.3"},
		"all addresses": {in: Config{BindAddress: "0.0.0.0"}, bind: "0.0.0.0", advertise: unreachableAddress},
		"advertised": {
			in: Config{BindAddress: "0.0.0.0", AdvertiseAddress: "10.0.0.1"}, bind: "0.0.0.0", advertise: "10.0.0.1",
		},
		"bind to a name":         {in: Config{BindAddress: "localhost"}, err: `bind address "localhost"`},
		"advertise loopback":     {in: Config{AdvertiseAddress: "127.0.0.1"}, err: `advertise address "127.0.0.1"`},
		"advertise no address":   {in: Config{AdvertiseAddress: "x"}, err: `advertise address "x"`},
		"advertise all of them":  {in: Config{AdvertiseAddress: "::"}, err: `advertise address "::"`},
		"loopback of another IP": {in: Config{BindAddress: "127.0.0.2"}, bind: "127.0.0.2", advertise: unreachableAddress},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tc.in.withDefaults()
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.BindAddress != tc.bind || got.AdvertiseAddress != tc.advertise {
				t.Errorf("got %s, %s", got.BindAddress, got.AdvertiseAddress)
			}
			if got.StartTimeout != DefaultStartTimeout || got.Log == nil {
				t.Errorf("defaults are missing: %+v", got)
			}
		})
	}
}

func TestPrepareStateDir(t *testing.T) {
	parent := shortTempDir(t)
	used := filepath.Join(parent, "used")
	if err := os.MkdirAll(filepath.Join(used, "pki"), 0o755); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(parent, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	// A short parent, so that only the path under test is too long.
	tests := map[string]struct {
		dir  string
		ours bool
		err  string
	}{
		"missing":  {dir: filepath.Join(parent, "new"), ours: true},
		"empty":    {dir: empty},
		"used":     {dir: used, err: "is not empty"},
		"too long": {dir: "/" + strings.Repeat("x", maxStateDir), err: "the sockets in it allow"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path, ours, err := prepareStateDir(tc.dir)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("mode: %v, %v", info, err)
			}
			if ours != tc.ours {
				t.Errorf("ours: got %v", ours)
			}
		})
	}
}

// shortTempDir is one whose path leaves room for sockets, whatever TMPDIR is.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "cp-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestSweepRemovesOnlyAbandonedState(t *testing.T) {
	parent := t.TempDir()
	mkdir := func(name string) string {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	held, abandoned, young, foreign := mkdir(tempPrefix+"1"), mkdir(tempPrefix+"2"), mkdir(tempPrefix+"3"), mkdir("other")
	for _, dir := range []string{held, abandoned, foreign} {
		lock, err := hold(dir)
		if err != nil {
			t.Fatal(err)
		}
		if dir == held {
			defer lock.Close()
			continue
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweep(parent); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{held: true, abandoned: false, young: true, foreign: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: exists: %v, want %v", filepath.Base(dir), err == nil, want)
		}
	}
}
