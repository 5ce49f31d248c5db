package sshlink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// key is one that we can log in with.
type key struct {
	signer ssh.Signer
	// source is a file's name, or "agent".
	source string
}

// keyring are the keys for one attempt to log in. No key material leaves it.
type keyring struct {
	keys []key
	// problems are about the keys that could not be had.
	problems []error
	agent    net.Conn

	mu      sync.Mutex
	offered bool
}

// loadKeys reads the keys anew, so that they can be replaced at any time.
func loadKeys(ctx context.Context, cfg Config) *keyring {
	r := &keyring{}
	for _, file := range cfg.KeyFiles {
		signer, err := loadKeyFile(file)
		if err != nil {
			r.problems = append(r.problems, fmt.Errorf("ssh.keyFiles %s: %w", file, err))
			continue
		}
		r.keys = append(r.keys, key{signer, file})
	}
	if cfg.Agent != "" {
		if err := r.loadAgent(ctx, cfg.Agent); err != nil {
			r.problems = append(r.problems, fmt.Errorf("ssh.agent %s: %w", cfg.Agent, err))
		}
	}
	return r
}

// loadKeyFile reads a private key, and its certificate where there is one.
func loadKeyFile(file string) (ssh.Signer, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, reason(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a file")
	}
	// As ssh does: what another owns (a mounted Secret) is the other's to protect.
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) == os.Getuid() && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others can read it (mode %04o): chmod 600 it, or mount the Secret with defaultMode 0400", info.Mode().Perm())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, reason(err)
	}
	signer, err := ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, errors.New("is encrypted: remove its passphrase (ssh-keygen -p), or load it into an agent and set ssh.agent")
	case err != nil:
		if _, _, _, _, publicErr := ssh.ParseAuthorizedKey(data); publicErr == nil {
			return nil, errors.New("is a public key: name the private one")
		}
		// The library's words are about the form, never about the contents.
		return nil, fmt.Errorf("is not a private key: %w", err)
	}
	return withCertificate(signer, file+"-cert.pub")
}

// withCertificate adds the certificate in the file, if there is one.
func withCertificate(signer ssh.Signer, file string) (ssh.Signer, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return signer, nil
	}
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", file, reason(err))
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", file, err)
	}
	certificate, ok := public.(*ssh.Certificate)
	if !ok {
		return nil, fmt.Errorf("certificate %s: is a plain public key", file)
	}
	signed, err := ssh.NewCertSigner(certificate, signer)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", file, err)
	}
	return signed, nil
}

// loadAgent connects to an agent, which signs as long as the keyring is open.
func (r *keyring) loadAgent(ctx context.Context, socket string) error {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", socket)
	if err != nil {
		return reason(err)
	}
	r.agent = conn
	// It is asked now, and again to sign while we log in.
	if err := conn.SetDeadline(time.Now().Add(dialTimeout + handshakeTimeout)); err != nil {
		return err
	}
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		return fmt.Errorf("ask for its keys: %w", err)
	}
	if len(signers) == 0 {
		return errors.New("holds no key: add one with ssh-add")
	}
	for _, s := range signers {
		r.keys = append(r.keys, key{s, "agent"})
	}
	return nil
}

// usable is an error when there is nothing to log in with.
func (r *keyring) usable() error {
	if len(r.keys) > 0 {
		return nil
	}
	return errors.Join(r.problems...)
}

// offer is for ssh.PublicKeysCallback: it is asked when the host takes keys.
func (r *keyring) offer() ([]ssh.Signer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offered = true
	signers := make([]ssh.Signer, len(r.keys))
	for i, k := range r.keys {
		signers[i] = k.signer
	}
	return signers, nil
}

// refused says which keys the host did not take, by fingerprint.
func (r *keyring) refused(hop Hop, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.offered {
		return fmt.Errorf("log in as %s: the host takes no keys (PubkeyAuthentication in its sshd_config)", hop)
	}
	tried := make([]string, len(r.keys))
	for i, k := range r.keys {
		tried[i] = fmt.Sprintf("%s %s (%s)", k.signer.PublicKey().Type(), ssh.FingerprintSHA256(k.signer.PublicKey()), k.source)
	}
	err := fmt.Errorf("log in as %s: the host refuses the user or every key: %s; put one of their public keys into the user's "+
		"~/.ssh/authorized_keys there (a from= before it must name this machine), and see AllowUsers and PermitRootLogin in its sshd_config", hop, strings.Join(tried, ", "))
	if strings.Contains(text, "oo many") {
		err = fmt.Errorf("%w; it stopped after MaxAuthTries: offer fewer keys", err)
	}
	return errors.Join(append([]error{err}, r.problems...)...)
}

func (r *keyring) close() {
	if r.agent != nil {
		_ = r.agent.Close() // nothing was written that could be lost
	}
}

// reason is an error without the path or address, which its context has.
func reason(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	var opErr *net.OpError
	if errors.As(err, &opErr) {
		return opErr.Err
	}
	return err
}
