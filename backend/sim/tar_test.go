package sim_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/burstlet/burstlet/backend"
)

// archive makes what "kubectl cp" sends: files, and names with a slash at their
// end as directories.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(files[name]))}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		must(t, w.WriteHeader(h))
		_, err := io.WriteString(w, files[name])
		must(t, err)
	}
	must(t, w.Close())
	return out.Bytes()
}

func unpack(t *testing.T, data []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		files[h.Name] = string(text)
	}
}

// runRaw runs a command with an input and returns its outputs apart.
func runRaw(
	ctx context.Context, b backend.Backend, stdin io.Reader, argv ...string,
) (out []byte, errs string, code int32, err error) {
	var o bytes.Buffer
	var e strings.Builder
	ref := backend.ContainerRef{Pod: backend.Ref{UID: "u"}, Name: "c"}
	code, err = b.Exec.Exec(ctx, ref, backend.ExecSpec{Command: argv, Stdin: stdin, Stdout: &o, Stderr: &e})
	return o.Bytes(), e.String(), code, err
}

// TestCopy runs what "kubectl cp" runs, both ways, on the container's own files
// and on volumes.
func TestCopy(t *testing.T) {
	for _, dir := range []string{"/tmp", "/scratch"} {
		t.Run(dir, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, b := mounted(t)
				big := strings.Repeat("\x00\xff\nbinary", 100_000)
				sent := map[string]string{"d/a.txt": "a\n", "d/sub/big": big, "d/empty/": "", "d/none": ""}
				_, _, code, err := runRaw(t.Context(), b, nil, "test", "-d", dir)
				if err != nil || code != 0 {
					t.Fatalf("test -d: %d, %v", code, err)
				}
				_, errs, code, err := runRaw(t.Context(), b, bytes.NewReader(archive(t, sent)), "tar", "-xmf", "-", "-C", dir)
				if err != nil || code != 0 || errs != "" {
					t.Fatalf("to the pod: %d, %v, %q", code, err, errs)
				}
				wantOutput(t, b, "c", "a.txt\nempty\nnone\nsub\n", "ls", dir+"/d")
				got, errs, code, err := runRaw(t.Context(), b, nil, "tar", "cf", "-", dir+"/d")
				if err != nil || code != 0 || errs != "tar: removing leading '/' from member names\n" {
					t.Fatalf("from the pod: %d, %v, %q", code, err, errs)
				}
				want := map[string]string{}
				for _, d := range []string{"d/", "d/sub/"} {
					want[dir[1:]+"/"+d] = ""
				}
				for name, text := range sent {
					want[dir[1:]+"/"+name] = text
				}
				if files := unpack(t, got); !maps.Equal(files, want) {
					t.Errorf("back came %q", slices.Sorted(maps.Keys(files)))
				}
				again, _, _, err := runRaw(
					t.Context(), b, nil, "sh", "-c", fmt.Sprintf("tar cf - '%s' | tail -c+%d", dir+"/d", 1001),
				)
				if err != nil || !bytes.Equal(again, got[1000:]) {
					t.Errorf("going on at byte 1000: %d of %d bytes, %v", len(again), len(got)-1000, err)
				}
			})
		})
	}
}

// TestTar: what tar says when something is wrong.
func TestTar(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		raw   string
		argv  []string
		out   string
		errs  string
		code  int32
	}{
		"verbose": {
			files: map[string]string{"a": "x", "b/c": "y"}, argv: []string{"xvf", "-", "-C", "/tmp"}, out: "a\nb/c\n",
		},
		"list": {files: map[string]string{"a": "x", "b/": ""}, argv: []string{"tf", "-"}, out: "a\nb/\n"},
		"no directory": {
			argv: []string{"xmf", "-", "-C", "/none"},
			errs: "tar: can't change directory to '/none': No such file or directory\n", code: 1,
		},
		"not preserved": {
			files: map[string]string{"a": "x"},
			argv:  []string{"--no-same-permissions", "--no-same-owner", "-xmf", "-", "-C", "/tmp"},
		},
		"missing": {
			argv: []string{"cf", "-", "none"}, out: strings.Repeat("\x00", 1024),
			errs: "tar: none: No such file or directory\ntar: error exit delayed from previous errors\n", code: 1,
		},
		"nothing": {argv: []string{"xmf", "-"}, errs: "tar: short read\n", code: 1},
		"cut":     {raw: "\x00", argv: []string{"xmf", "-"}, errs: "tar: short read\n", code: 1},
		"no tar": {
			raw: strings.Repeat("garbage ", 128), argv: []string{"xmf", "-"}, errs: "tar: invalid tar magic\n", code: 1,
		},
		"outside": {
			files: map[string]string{"../a": "x"}, argv: []string{"xmf", "-", "-C", "/tmp"},
			errs: "tar: name with '..' in it: '../a'\n", code: 1,
		},
		"read-only": {
			files: map[string]string{"a": "x"}, argv: []string{"xmf", "-", "-C", "/etc/v"},
			errs: "tar: can't open 'a': Read-only file system\n", code: 1,
		},
		"too big": {
			files: map[string]string{"a": strings.Repeat("x", 10<<20), "b": strings.Repeat("x", 10<<20)},
			argv:  []string{"xmf", "-", "-C", "/tmp"}, errs: "tar: write error: No space left on device\n", code: 1,
		},
		"far too big": {
			files: map[string]string{"a": strings.Repeat("x", 17<<20)},
			argv:  []string{"xmf", "-", "-C", "/scratch"}, errs: "tar: write error: No space left on device\n", code: 1,
		},
		"compressed": {argv: []string{"czf", "-", "/tmp"}, errs: "tar: unrecognized option: z\n", code: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, b := mounted(t)
				in := []byte(tt.raw)
				if tt.files != nil {
					in = archive(t, tt.files)
				}
				out, errs, code, err := runRaw(t.Context(), b, bytes.NewReader(in), append([]string{"tar"}, tt.argv...)...)
				if err != nil || string(out) != tt.out || errs != tt.errs || code != tt.code {
					t.Errorf("%.200q, %q, %d, %v", out, errs, code, err)
				}
			})
		})
	}
}

// TestRoomIsFreed: a file that is replaced or removed takes no room any more.
func TestRoomIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b := mounted(t)
		data := archive(t, map[string]string{"a": strings.Repeat("x", 12<<20)})
		for i := range 3 {
			_, errs, code, err := runRaw(t.Context(), b, bytes.NewReader(data), "tar", "xf", "-", "-C", "/scratch")
			if err != nil || code != 0 {
				t.Fatalf("copy %d: %q, %d, %v", i, errs, code, err)
			}
			if i > 0 {
				wantOutput(t, b, "c", "", "rm", "/scratch/a")
			}
		}
		_, errs, code, err := runRaw(
			t.Context(), b, strings.NewReader(strings.Repeat("x", 17<<20)), "sh", "-c", "cat > /f; wc -c /f",
		)
		if err != nil || code != 0 || errs != "sh: write error: No space left on device\n" {
			t.Errorf("endless input: %q, %d, %v", errs, code, err)
		}
	})
}
