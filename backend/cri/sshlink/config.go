package sshlink

import (
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/host"
	"github.com/burstlet/burstlet/backend/cri/host/helper"
	"github.com/burstlet/burstlet/backend/cri/sshlink/hostkeys"
	"github.com/burstlet/burstlet/backend/cri/sshlink/keyring"
)

const (
	defaultKeepalive    = 5 * time.Second
	defaultKeepaliveMax = 3
)

// Hop is one sshd: who logs in, and where.
type Hop = criconfig.Hop

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
	// KeyFiles are private keys, read again for each connection; FILE-cert.pub beside one
	// is its certificate. They are tried in turn, before those of the agent.
	KeyFiles []string
	// PassphraseFile holds the passphrase of those that have one; empty: none has.
	PassphraseFile string
	// Agent is the socket of an ssh-agent; empty: none.
	Agent string
	// KnownHostsFile has the host keys of the host and of the jump hosts, read again
	// for each connection.
	KnownHostsFile string
	// InsecureIgnoreHostKey accepts any host key. It excludes KnownHostsFile.
	InsecureIgnoreHostKey bool
	// Jumps are passed through, in order, with the same keys unless they have their own.
	Jumps []Hop
	// Keepalive is the pause between keepalive requests; default 5 s. A connection on
	// which nothing arrived for KeepaliveMax of them, default 3, is given up.
	Keepalive    time.Duration
	KeepaliveMax int
	// Helper returns the helper's static Linux binary for a GOARCH word, packed by gzip.
	Helper func(goarch string) ([]byte, error)
	// Tenant is the node, for Diagnose.
	Tenant Tenant
	// HelperArgs are further arguments of the helper, as --root DIR.
	HelperArgs []string
	// NewClient speaks with a helper over its standard input and output; default that
	// of package helper.
	NewClient func(io.ReadWriteCloser) Client
}

// Validate says, by the names of the configuration file, what is wrong. It reads
// nothing.
func (c Config) Validate() error {
	var errs []error
	if err := (Hop{User: c.User, Address: c.Address}).Validate(); err != nil {
		errs = append(errs, fmt.Errorf("endpoint: %w", err))
	}
	settings := criconfig.SSH{
		KeyFiles: c.KeyFiles, Agent: c.Agent, KnownHostsFile: c.KnownHostsFile,
		InsecureIgnoreHostKey: c.InsecureIgnoreHostKey,
		Keepalive:             c.Keepalive, KeepaliveMax: c.KeepaliveMax,
	}
	for _, err := range settings.Errors(field.NewPath("ssh")) {
		errs = append(errs, err)
	}
	for i, hop := range c.Jumps {
		if err := hop.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("ssh.jumpHosts[%d]: %w", i, err))
		}
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

// keysOf are the keys for one hop.
func (c Config) keysOf(hop Hop) keyring.Config {
	if len(hop.KeyFiles) > 0 {
		c.KeyFiles, c.Agent = hop.KeyFiles, ""
	}
	return keyring.Config{
		Files: c.KeyFiles, PassphraseFile: c.PassphraseFile, Agent: c.Agent, Reach: dialTimeout, Use: handshakeTimeout,
	}
}

// hostKeys are those of one hop.
func (c Config) hostKeys(hop Hop) (*hostkeys.Checker, error) {
	if c.InsecureIgnoreHostKey {
		return hostkeys.AcceptAny(), nil
	}
	return hostkeys.Load(c.KnownHostsFile, hop.Address)
}

// hops is the way: the jump hosts, then the host.
func (c Config) hops() []Hop {
	return append(append([]Hop(nil), c.Jumps...), Hop{User: c.User, Address: c.Address})
}
