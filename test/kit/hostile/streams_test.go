package hostile

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/wait"
)

// A server with room for some streams sees each kind of them, refuses the others, and none is read; one that it
// closes is opened again.
func TestStreams(t *testing.T) {
	const room, asked = 28, 30
	var (
		mu   sync.Mutex
		open int
		seen = map[string]int{}
	)
	enter := func(kind string) bool {
		mu.Lock()
		defer mu.Unlock()
		if open == room {
			return false
		}
		open++
		seen[kind]++
		return true
	}
	leave := func() {
		mu.Lock()
		defer mu.Unlock()
		open--
	}
	end := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if len(r.TLS.PeerCertificates) == 0 || !strings.HasPrefix(r.URL.Path, "/"+kind+"/ns/p") {
			t.Errorf("%s with %d certificates", r.URL.Path, len(r.TLS.PeerCertificates))
		}
		if !enter(kind) {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		defer leave()
		control := http.NewResponseController(w)
		if r.Header.Get("Upgrade") == "" {
			_ = control.Flush() // fails once the client has gone
			<-end
			return
		}
		conn, _, err := control.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n\r\n" + strings.Repeat("unread", 1000)))
		<-end
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.Certificates, config.ServerName = server.TLS.Certificates, "example.com"

	c := &Client{Address: server.Listener.Addr().String()}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		c.Streams(ctx, asked, Target{TLS: config, Pod: func() string { return "ns/p" }, Container: "c"})
	})
	wait.For(t, time.Minute, "all streams for which there is room, of each kind", func() error {
		mu.Lock()
		defer mu.Unlock()
		if open != room || c.Opened() != room || c.Crowded() == 0 || len(seen) != 3 {
			return fmt.Errorf("%d are open of %d, %d refused, %v", open, c.Opened(), c.Crowded(), seen)
		}
		return nil
	})
	close(end)
	wait.For(t, time.Minute, "others in the place of those that ended", func() error {
		if c.Opened() < 2*room {
			return fmt.Errorf("%d were opened", c.Opened())
		}
		return nil
	})
	stop()
	group.Wait()
}
