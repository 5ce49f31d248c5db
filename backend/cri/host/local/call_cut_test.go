package local

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestFieldsAreCut(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 300)
	for _, m := range []*runtimeapi.ExecSyncResponse{
		{}, {Stdout: long, Stderr: long[:7], ExitCode: -1}, {Stdout: long[:200], Stderr: long, ExitCode: 7}, {ExitCode: 3},
	} {
		encoded, err := proto.Marshal(m)
		noError(t, err)
		cut, err := cutFields(encoded, 200)
		noError(t, err)
		var got runtimeapi.ExecSyncResponse
		noError(t, proto.Unmarshal(cut, &got))
		want := &runtimeapi.ExecSyncResponse{
			Stdout: m.Stdout[:min(len(m.Stdout), 200)], Stderr: m.Stderr[:min(len(m.Stderr), 200)], ExitCode: m.ExitCode,
		}
		if !proto.Equal(want, &got) {
			t.Errorf("%d and %d bytes, code %d", len(got.Stdout), len(got.Stderr), got.ExitCode)
		}
		for i := range encoded {
			if _, err := cutFields(encoded[:i], 200); err != nil && !errors.Is(err, errNoMessage) {
				t.Errorf("the first %d bytes: %v", i, err)
			}
		}
	}
	// A fixed32 and a fixed64 pass; groups do not.
	if out, err := cutFields([]byte("\x0d1234\x1112345678"), 1); err != nil || string(out) != "\x0d1234\x1112345678" {
		t.Errorf("%q, %v", out, err)
	}
	for _, broken := range []string{
		"\x0b", "\x0d123", "\x08", "\x0a\x05abc", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", strings.Repeat("\x80", 11),
	} {
		if out, err := cutFields([]byte(broken), 1); !errors.Is(err, errNoMessage) {
			t.Errorf("%q: %q, %v", broken, out, err)
		}
	}
}
