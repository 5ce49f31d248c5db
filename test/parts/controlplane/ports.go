package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	firstPort = 20000
	lastPort  = 29999
	portTries = 100
)

// freePort returns a port of host that nothing listens on; see doc.go for the
// range. Another process may take it before it is used.
func freePort(host string) (int, error) {
	var last error
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("close port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, errors.Join(fmt.Errorf("no free port of %s found in %d tries", host, portTries), last)
}
