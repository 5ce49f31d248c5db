package wireerr

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/burstlet/burstlet/backend/class"
)

// TestErrorsStayWhatTheyAre: text, class and kernel error arrive.
func TestErrorsStayWhatTheyAre(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, tt := range []struct {
		err     error
		is      error
		timeout bool
	}{
		{class.Errorf(class.ErrDenied, "no\nüs"), class.ErrDenied, false},
		{fmt.Errorf("open: %w", fs.ErrNotExist), fs.ErrNotExist, false},
		{refused, syscall.ECONNREFUSED, false},
		{fmt.Errorf("dial: %w", os.ErrDeadlineExceeded), os.ErrDeadlineExceeded, true},
		{&net.DNSError{Err: "slow", IsTimeout: true}, nil, true},
	} {
		text, err := json.Marshal(New(tt.err))
		if err != nil {
			t.Fatal(err)
		}
		w := &Error{}
		if err := json.Unmarshal(text, w); err != nil {
			t.Fatal(err)
		}
		got := w.Err()
		if got.Error() != tt.err.Error() || tt.is != nil && !errors.Is(got, tt.is) || class.Of(got) != class.Of(tt.err) {
			t.Errorf("%v became %v", tt.err, got)
		}
		var timeout net.Error
		if is := errors.As(got, &timeout) && timeout.Timeout(); is != tt.timeout {
			t.Errorf("%v is a timeout: %v", got, is)
		}
	}
	if New(nil).Err() != nil {
		t.Error("nothing became an error")
	}
	if beside := New(io.EOF).Err(class.ErrDenied); !errors.Is(beside, class.ErrDenied) || beside.Error() != "EOF" {
		t.Errorf("%v has lost what was beside it", beside)
	}
}

func FuzzError(f *testing.F) {
	f.Add([]byte(`{"text":"x","is":["class.Invalid","fs.ErrNotExist","?"],"errnos":["ENOENT","E"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var w *Error
		if json.Unmarshal(data, &w) != nil || w == nil {
			return
		}
		// What was understood says the same when it is passed on.
		err := w.Err()
		again := New(err)
		if len(err.Error()) < MaxText && strings.ToValidUTF8(err.Error(), "\uFFFD") != again.Text {
			t.Errorf("text %q, then %q", err.Error(), again.Text)
		}
		for _, s := range sentinels() {
			if slices.Contains(w.Is, s.name) && !slices.Contains(again.Is, s.name) {
				t.Errorf("%s was lost", s.name)
			}
		}
	})
}
