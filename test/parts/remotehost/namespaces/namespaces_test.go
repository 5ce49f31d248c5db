package namespaces

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTailKeepsTheEnd(t *testing.T) {
	var all bytes.Buffer
	log := &Tail{next: &all}
	for i := range 1000 {
		if _, err := fmt.Fprintf(log, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if got := log.String(); len(got) != tailBytes || !strings.HasSuffix(got, "line 999\n") {
		t.Errorf("tail has %d bytes and ends in %q", len(got), got[max(0, len(got)-20):])
	}
	if !strings.HasPrefix(all.String(), "line 0\n") {
		t.Error("the log was not passed on")
	}
}

func TestLookPathNamesTheBinary(t *testing.T) {
	_, err := LookPath("no-such-binary")
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "no-such-binary") {
		t.Errorf("error is %v", err)
	}
}

func TestTailKeepsTheBeginningOfACrash(t *testing.T) {
	log := &Tail{}
	writes := []string{
		"it runs, and says panic: now and then\n", "up\nfatal error: concurrent map writes\n",
		"\ngoroutine 7 [running]:\nmain.main()\n",
	}
	for i := range 1000 {
		writes = append(writes, fmt.Sprintf("goroutine %d [select]:\n", i))
	}
	for _, text := range writes {
		if _, err := log.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	got := log.String()
	if !strings.HasPrefix(got, "fatal error: concurrent map writes\n\ngoroutine 7 [running]:\nmain.main()\n") ||
		!strings.HasSuffix(got, "goroutine 999 [select]:\n") {
		t.Errorf("it kept %q", got)
	}
	if most := 2*tailBytes + len("\n...\n"); len(got) > most {
		t.Errorf("it kept %d bytes, want %d at most", len(got), most)
	}
}

func TestReportsAreReadAfterWhatWasWrittenBefore(t *testing.T) {
	var log bytes.Buffer
	var got []string
	r := &reports{log: &log, handle: func(fields []string) {
		got = append(got, fmt.Sprintf("%s after %d", strings.Join(fields, " "), log.Len()))
	}}
	long := strings.Repeat("x", 5*maxReport)
	var want []string
	before := 0
	for _, write := range []struct{ text, report string }{
		{"loading\n\ninit: ready\n", "ready"},
		{"no init: of a report\ninit:\n", ""},
		{long + "\n" + long, ""},
		{long + "\ninit: pid cont", ""},
		{"ainerd 17\n", "pid containerd 17"},
		{"SIGABRT: abort\nits last line", ""},
		{"\ninit: exited containerd 2\n", "exited containerd 2"},
	} {
		if _, err := r.Write([]byte(write.text)); err != nil {
			t.Fatal(err)
		}
		before += len(write.text)
		if write.report != "" {
			want = append(want, fmt.Sprintf("%s after %d", write.report, before))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reports, want -, got +:\n%s", diff)
	}
}
