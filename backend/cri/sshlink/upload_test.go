package sshlink

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/kit/sshkeys"
)

// pack packs a program as burstlet carries it.
func pack(program string) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	// A buffer takes everything.
	_, _ = w.Write([]byte(program))
	_ = w.Close()
	return out.Bytes()
}

// sh runs a script as a host's shell does.
func sh(t *testing.T, script, input string) (output, complaint string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &complaints
	err = cmd.Run()
	return out.String(), complaints.String(), err
}

const keptName = helperName + ".0123456789"

// uploadTo is the script for places that stand in for its own.
func uploadTo(size int, places ...string) string {
	return fmt.Sprintf(uploadScript, strings.Join(places, " "), helperName, keptName, "cat", size)
}

func findIn(places ...string) string {
	return fmt.Sprintf(findScript, strings.Join(places, " "), helperName, keptName)
}

func TestUploadTakesTheFirstPlace(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	out, said, err := sh(t, uploadTo(5, first, second), "12345")
	if err != nil {
		t.Fatal(err, said)
	}
	dir := marked(out, "dir=")
	if dir != filepath.Join(first, keptName) {
		t.Errorf("directory %q", dir)
	}
	if all, err := os.ReadDir(first); len(all) != 1 || err != nil {
		t.Errorf("there is more: %v, %v", all, err)
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

// What was brought once is found, and brought again only over itself.
func TestUploadIsFound(t *testing.T) {
	need.Root(t)
	absent, place := filepath.Join(t.TempDir(), "absent"), t.TempDir()
	found := func() string {
		t.Helper()
		out, said, err := sh(t, findIn(absent, place), "")
		if err != nil || marked(out, "gzip=") != "yes" {
			t.Errorf("%q, %q, %v", out, said, err)
		}
		return marked(out, "dir=")
	}
	if dir := found(); dir != "" {
		t.Errorf("found %q before it was brought", dir)
	}
	for _, text := range []string{"12345", "67890"} {
		if _, said, err := sh(t, uploadTo(5, absent, place), text); err != nil {
			t.Fatal(err, said)
		}
		dir := found()
		if data, err := os.ReadFile(filepath.Join(dir, helperName)); dir != filepath.Join(place, keptName) ||
			string(data) != text {
			t.Errorf("found %q with %q, %v", dir, data, err)
		}
	}
}

// Where everybody may write, somebody may have taken the name: what stands there is never
// run, and does not keep the helper away.
func TestNobodyElsesHelperIsRun(t *testing.T) {
	need.Root(t)
	for name, plant := range map[string]func(dir string) error{
		"a directory of another user": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o777), os.WriteFile(filepath.Join(dir, helperName), []byte("theirs"), 0o755),
				os.Chown(filepath.Join(dir, helperName), 65534, 65534), os.Chown(dir, 65534, 65534))
		},
		"a link": func(dir string) error {
			elsewhere := dir + "-elsewhere"
			return errors.Join(os.Mkdir(elsewhere, 0o777), os.WriteFile(
				filepath.Join(elsewhere, helperName), []byte("theirs"), 0o755,
			),
				os.Symlink(elsewhere, dir))
		},
	} {
		t.Run(name, func(t *testing.T) {
			place := t.TempDir()
			if err := plant(filepath.Join(place, keptName)); err != nil {
				t.Fatal(err)
			}
			out, said, err := sh(t, findIn(place), "")
			if dir := marked(out, "dir="); dir != "" || err != nil {
				t.Errorf("found %q, %q, %v", dir, said, err)
			}
			out, said, err = sh(t, uploadTo(4, place), "ours")
			dir := marked(out, "dir=")
			if err != nil || filepath.Base(dir) == keptName || filepath.Dir(dir) != place {
				t.Fatalf("%q, %q, %v", dir, said, err)
			}
			if data, err := os.ReadFile(filepath.Join(dir, helperName)); string(data) != "ours" || err != nil {
				t.Errorf("%q, %v", data, err)
			}
		})
	}
}

func TestUploadIsUnpackedOnTheHost(t *testing.T) {
	place := t.TempDir()
	p := packedHelper(pack("the program"))
	size, err := p.size()
	if err != nil || size != 11 {
		t.Errorf("size %d, %v", size, err)
	}
	script := fmt.Sprintf(uploadScript, place, helperName, p.name, "gzip -dc", size)
	out, said, err := sh(t, script, string(p.program))
	if err != nil {
		t.Fatal(err, said)
	}
	if data, err := os.ReadFile(filepath.Join(marked(out, "dir="), helperName)); string(data) != "the program" ||
		err != nil {
		t.Errorf("%q, %v", data, err)
	}
	if _, said, err := sh(t, script, string(p.program[:20])); err == nil ||
		!strings.Contains(said, "did not arrive whole") {
		t.Errorf("a part of it: %q, %v", said, err)
	}
	if plain, err := unpacked(p.program); string(plain) != "the program" || err != nil {
		t.Errorf("%q, %v", plain, err)
	}
	if _, err := packedHelper(nil).size(); err == nil {
		t.Error("nothing has a size")
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

// noexec runs scripts in turn where directories are mounted noexec from the second on. The
// mounts are the script's own: none reaches the machine.
func noexec(t *testing.T, dirs []string, input string, before, script string) (output, complaint string, err error) {
	t.Helper()
	need.Root(t)
	var all strings.Builder
	step := func(format string, args ...any) { fmt.Fprintf(&all, format+" || exit $?\n", args...) }
	for _, dir := range dirs {
		step("mount -t tmpfs tmpfs %s", quote(dir))
	}
	step("(%s\n)", before)
	for _, dir := range dirs {
		step("mount -o remount,noexec %s", quote(dir))
	}
	step("(%s\n)", script)
	return sh(t, "exec unshare --mount --propagation private /bin/sh -c "+quote(all.String()), input)
}

// Programs cannot be run from where a file system is mounted noexec: such a place is passed
// over, and nothing stays there.
func TestUploadPassesOverNoexec(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	script := "(" + uploadTo(5, first, second) + "\n) && echo left=$(ls -A " + quote(first) + ")"
	out, said, err := noexec(t, []string{first}, "12345", "true", script)
	if dir := marked(out, "dir="); err != nil || dir != filepath.Join(second, keptName) {
		t.Errorf("directory %q, %q, %v", dir, said, err)
	}
	if !strings.HasSuffix(out, "\nleft=\n") {
		t.Errorf("it left something where nothing can be run: %q", out)
	}
	file := filepath.Join(second, keptName, helperName)
	if data, err := os.ReadFile(file); string(data) != "12345" {
		t.Errorf("contents %q, %v", data, err)
	}
}

func TestUploadWhereNothingRunsNamesThePlaces(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	out, said, err := noexec(t, []string{first, second}, "12345", "true", uploadTo(5, first, second))
	want := "no place for the helper: " + first + " runs no programs; " + second + " runs no programs; " +
		"mount one of them without noexec\n"
	if err == nil || said != want || marked(out, "dir=") != "" {
		t.Errorf("%v, said %q, want %q", err, said, want)
	}
}

// A helper that was brought before its place was mounted noexec is not found: it could not
// be started, and would keep another from being brought.
func TestHelperOnNoexecIsNotFound(t *testing.T) {
	place := t.TempDir()
	out, said, err := noexec(t, []string{place}, "12345", uploadTo(5, place), findIn(place)+"\necho asked")
	brought, found, asked := strings.Cut(out, marker+"gzip=yes\n")
	if err != nil || !asked || marked(brought, "dir=") != filepath.Join(place, keptName) ||
		strings.Count(brought, "dir=") != 1 || found != "asked\n" {
		t.Errorf("%q, %q, %v", out, said, err)
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
	old, young, others := filepath.Join(place, helperName+
		".old"), filepath.Join(place, helperName+".young"), filepath.Join(place, "other")
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
	plain := sshkeys.Write(t, "plain", 0o600, nil)
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
