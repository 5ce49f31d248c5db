package sshlink

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/need"
)

// sh runs a script as a host's shell does.
func sh(t *testing.T, script, input string) (output, complaint string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &complaints
	err = cmd.Run()
	return out.String(), complaints.String(), err
}

// places are directories that stand in for those of the script.
func uploadTo(size int, places ...string) string {
	script := fmt.Sprintf(uploadScript, helperName, size)
	return strings.Replace(script, "/run /dev/shm /var/tmp", strings.Join(places, " "), 1)
}

func TestUploadTakesTheFirstPlace(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	out, said, err := sh(t, uploadTo(5, first, second), "12345")
	if err != nil {
		t.Fatal(err, said)
	}
	dir := marked(out, "dir=")
	if filepath.Dir(dir) != first {
		t.Errorf("directory %q", dir)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info, err)
	}
	file := filepath.Join(dir, helperName)
	if info, err = os.Stat(file); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("file: %v, %v", info, err)
	}
	if data, err := os.ReadFile(file); string(data) != "12345" {
		t.Errorf("contents %q, %v", data, err)
	}
}

func TestUploadSkipsPlacesThatAreNotThere(t *testing.T) {
	second := t.TempDir()
	out, said, err := sh(t, uploadTo(1, "/absent/place", second), "x")
	if err != nil || filepath.Dir(marked(out, "dir=")) != second {
		t.Errorf("output %q, %q, %v", out, said, err)
	}
}

func TestUploadWithoutAPlaceSaysWhy(t *testing.T) {
	_, said, err := sh(t, uploadTo(1, "/absent/place"), "x")
	if err == nil || !strings.Contains(said, "no place for the helper:") || !strings.Contains(said, "/absent/place") {
		t.Errorf("said %q, %v", said, err)
	}
}

func TestPartOfAnUploadIsRemoved(t *testing.T) {
	place := t.TempDir()
	_, said, err := sh(t, uploadTo(10, place), "12345")
	if err == nil || !strings.Contains(said, "did not arrive whole") {
		t.Errorf("said %q, %v", said, err)
	}
	if left, err := os.ReadDir(place); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestUploadRemovesWhatEarlierOnesLeft(t *testing.T) {
	need.Root(t) // only root's leftovers are removed
	place := t.TempDir()
	old, young, others := filepath.Join(place, helperName+".old"), filepath.Join(place, helperName+".young"), filepath.Join(place, "other")
	for _, dir := range []string{old, young, others} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-time.Hour)
	for _, dir := range []string{old, others} {
		if err := os.Chtimes(dir, past, past); err != nil {
			t.Fatal(err)
		}
	}
	if _, said, err := sh(t, uploadTo(1, place), "x"); err != nil {
		t.Fatal(err, said)
	}
	for dir, want := range map[string]bool{old: false, young: true, others: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %t", dir, err, want)
		}
	}
}

func TestSocketScript(t *testing.T) {
	dir := t.TempDir()
	plain := writeFile(t, "plain", 0o600, nil)
	open := filepath.Join(dir, "it's a.sock")
	l, err := net.Listen("unix", open)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dead := filepath.Join(dir, "itXs a.sock")
	d, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	d.SetUnlinkOnClose(false)
	d.Close()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(open, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "absent"): "missing", plain: "refused", open: "listening", dead: "refused", link: "listening",
	} {
		out, said, err := sh(t, socketShell+fmt.Sprintf(socketScript, quote(path)), "")
		if got := marked(out, ""); got != want || err != nil {
			t.Errorf("%s: %q, %q, %v, want %s", path, got, said, err, want)
		}
	}
}

func TestQuote(t *testing.T) {
	text := `a 'b' "c" $d \e ` + "`f`"
	if out, said, err := sh(t, "printf %s "+quote(text), ""); out != text {
		t.Errorf("%q, %q, %v", out, said, err)
	}
}
