package containerd

import (
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/containerd/log"
)

// headerTimeout bounds how long a client of a registry may take to ask.
const headerTimeout = time.Minute

// ServeRegistry serves on a listener until the server is closed.
func ServeRegistry(listener net.Listener, handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.L.WithError(err).Warn("registry ended")
		}
	}()
	return server
}
