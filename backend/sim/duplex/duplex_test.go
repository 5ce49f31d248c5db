package duplex

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDirectionsEndApart: an end that has ended what it writes still reads.
func TestDirectionsEndApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := Pipe()
		go func() {
			all, err := io.ReadAll(far)
			if err == nil {
				_, err = far.Write(append(all, " back"...))
			}
			if err != nil {
				t.Error(err)
			}
			_ = far.Close()
		}()
		if _, err := io.WriteString(near, "there and"); err != nil {
			t.Fatal(err)
		}
		if err := near.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(near); err != nil || string(got) != "there and back" {
			t.Errorf("%q, %v", got, err)
		}
		<-near.Closed()
	})
}

// TestClose: either end ends both, once or more often; deadlines are each
// direction's own.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := Pipe()
		if err := near.SetDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: %v", err)
		}
		for _, c := range []net.Conn{near, near, far} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("read from what was closed: %v", err)
		}

		near, far = Pipe()
		if err := far.CloseRead(); err != nil {
			t.Fatal(err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write to nobody: %v", err)
		}
	})
}
