package sshlink

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/host/helper"
)

const (
	defaultPort         = "22"
	defaultKeepalive    = 5 * time.Second
	defaultKeepaliveMax = 3
)

// Hop is one sshd: who logs in, and where.
type Hop struct {
	User string
	// Address is host:port.
	Address string
}

func (h Hop) String() string { return h.User + "@" + h.Address }

// Client is a running helper, as package backend/cri/host/helper makes it.
type Client interface {
	host.Host
	// Close ends the stream and, with it, the helper.
	Close() error
	// Done is closed when the stream has ended.
	Done() <-chan struct{}
}

// Config says which host, and how to be let in.
type Config struct {
	// User and Address (host:port) are the pods' host.
	User, Address string
	// KeyFiles are private keys without a passphrase, read again for each
	// connection; FILE-cert.pub beside one is its certificate. They are tried in
	// turn, before those of the agent.
	KeyFiles []string
	// Agent is the socket of an ssh-agent; empty: none.
	Agent string
	// KnownHostsFile has the host keys of the host and of the jump hosts, read again
	// for each connection.
	KnownHostsFile string
	// InsecureIgnoreHostKey accepts any host key. It excludes KnownHostsFile.
	InsecureIgnoreHostKey bool
	// Jumps are passed through, in order, with the same keys.
	Jumps []Hop
	// Keepalive is the pause between keepalive requests; default 5 s. A connection on
	// which nothing arrived for KeepaliveMax of them, default 3, is given up.
	Keepalive    time.Duration
	KeepaliveMax int
	// Helper returns the helper's static Linux binary for a GOARCH word.
	Helper func(goarch string) ([]byte, error)
	// HelperArgs are further arguments of the helper, as --root DIR.
	HelperArgs []string
	// NewClient speaks with a helper over its standard input and output; default that
	// of package helper.
	NewClient func(io.ReadWriteCloser) Client
}

// ParseEndpoint takes ssh://user@host[:port] apart. The port is 22 if none is
// given.
func ParseEndpoint(endpoint string) (Hop, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		// The text of url's error holds all of the URL, a password too.
		return Hop{}, errors.New("not a URL of the form ssh://user@host[:port]")
	}
	_, password := u.User.Password()
	switch {
	case u.Scheme != "ssh" || u.Hostname() == "":
		return Hop{}, errors.New("must have the form ssh://user@host[:port]")
	case password:
		return Hop{}, errors.New("must not hold a password: log in with a key")
	case u.User.Username() == "":
		return Hop{}, errors.New("lacks the user: ssh://user@host[:port]")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return Hop{}, errors.New("must end after the port: ssh://user@host[:port]")
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	h := Hop{User: u.User.Username(), Address: net.JoinHostPort(u.Hostname(), port)}
	return h, checkHop(h)
}

func checkHop(h Hop) error {
	name, port, err := net.SplitHostPort(h.Address)
	switch {
	case err != nil:
		return fmt.Errorf("address %q is not host:port", h.Address)
	case name == "":
		return fmt.Errorf("address %q lacks the host", h.Address)
	case h.User == "":
		return errors.New("lacks the user")
	case strings.ContainsAny(h.User+name, " \t\r\n\x00"):
		return errors.New("must not contain white space")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	return nil
}

// Validate says, by the names of the configuration file, what is wrong. It reads
// nothing.
func (c Config) Validate() error {
	var errs []error
	if err := checkHop(Hop{c.User, c.Address}); err != nil {
		errs = append(errs, fmt.Errorf("endpoint: %w", err))
	}
	if len(c.KeyFiles) == 0 && c.Agent == "" {
		errs = append(errs, errors.New("ssh.keyFiles: name the file of a private key, or set ssh.agent"))
	}
	for i, file := range c.KeyFiles {
		if file == "" {
			errs = append(errs, fmt.Errorf("ssh.keyFiles[%d]: must not be empty", i))
		}
	}
	switch {
	case c.KnownHostsFile == "" && !c.InsecureIgnoreHostKey:
		errs = append(errs, fmt.Errorf("ssh.knownHostsFile: name a file with the host's key (ssh-keyscan%s), "+
			"or set ssh.insecureIgnoreHostKey to talk to anyone", keyscanArgs(c.Address)))
	case c.KnownHostsFile != "" && c.InsecureIgnoreHostKey:
		errs = append(errs, errors.New("ssh.insecureIgnoreHostKey: excludes ssh.knownHostsFile"))
	}
	for i, hop := range c.Jumps {
		if err := checkHop(hop); err != nil {
			errs = append(errs, fmt.Errorf("ssh.jumpHosts[%d]: %w", i, err))
		}
	}
	if c.Keepalive < 0 {
		errs = append(errs, errors.New("ssh.keepalive: must not be negative"))
	}
	if c.KeepaliveMax < 0 {
		errs = append(errs, errors.New("ssh.keepaliveMax: must not be negative"))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Keepalive == 0 {
		c.Keepalive = defaultKeepalive
	}
	if c.KeepaliveMax == 0 {
		c.KeepaliveMax = defaultKeepaliveMax
	}
	if c.NewClient == nil {
		c.NewClient = func(rw io.ReadWriteCloser) Client { return helper.NewClient(rw) }
	}
	return c
}

// hops is the way: the jump hosts, then the host.
func (c Config) hops() []Hop {
	return append(append([]Hop(nil), c.Jumps...), Hop{c.User, c.Address})
}
