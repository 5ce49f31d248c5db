package intask

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// A session may come before the server of its container listens.
func TestASessionWaitsForItsServer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), AgentSocket)
	listening := make(chan net.Listener, 1)
	later := time.AfterFunc(2*connectAgain, func() {
		l, err := ListenAgent(socket)
		if err != nil {
			t.Error(err)
		}
		listening <- l
	})
	defer later.Stop()
	conn, err := dialServer(t.Context(), socket)
	must(t, err)
	must(t, errors.Join(conn.Close(), (<-listening).Close()))
}
