package keyring

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math"
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

// Config says where keys are.
type Config struct {
	// Files are private keys; FILE-cert.pub beside one is its certificate.
	Files []string
	// PassphraseFile holds the passphrase of those that have one; empty: none has.
	PassphraseFile string
	// Agent is the socket of an ssh-agent; empty: none.
	Agent string
	// Reach is how long it may take to reach the agent, Use how long after that it is asked.
	Reach, Use time.Duration
}

// Keyring are the keys for one attempt to log in. No key material leaves it.
type Keyring struct {
	keys []key
	// problems are about the keys that could not be had.
	problems []error
	agent    net.Conn

	mu      sync.Mutex
	offered bool
}

// Load reads the keys anew, so that they can be replaced at any time. Those that it could not
// read are told where the rest is not enough.
func Load(ctx context.Context, cfg Config) *Keyring {
	r := &Keyring{}
	for _, file := range cfg.Files {
		if err := r.loadFile(file, cfg.PassphraseFile); err != nil {
			r.problems = append(r.problems, fmt.Errorf("ssh.keyFiles %s: %w", file, err))
		}
	}
	if cfg.Agent != "" {
		if err := r.loadAgent(ctx, cfg); err != nil {
			r.problems = append(r.problems, fmt.Errorf("ssh.agent %s: %w", cfg.Agent, err))
		}
	}
	return r
}

// loadFile reads a key, and adds the certificate beside it, then itself.
func (r *Keyring) loadFile(file, passphraseFile string) error {
	signer, err := loadKeyFile(file, passphraseFile)
	if err != nil {
		return err
	}
	signed, err := certified(signer, file+"-cert.pub", time.Now())
	if signed != nil {
		r.keys = append(r.keys, key{signed, file + "-cert.pub"})
	}
	r.keys = append(r.keys, key{signer, file})
	return err
}

// loadKeyFile reads a private key.
func loadKeyFile(file, passphraseFile string) (ssh.Signer, error) {
	data, err := readSecret(file)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(data)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		signer, err = unlock(data, passphraseFile)
	} else if err != nil {
		if _, _, _, _, publicErr := ssh.ParseAuthorizedKey(data); publicErr == nil {
			return nil, errors.New("is a public key: name the private one")
		}
		// The library's words are about the form, never about the contents.
		err = fmt.Errorf("is not a private key: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return modern(signer)
}

// readSecret reads a file that others must not.
func readSecret(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, reason(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a file")
	}
	// As ssh does: what another owns (a mounted Secret) is the other's to protect.
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) == os.Getuid() && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf(
			"others can read it (mode %04o): chmod 600 it, or mount the Secret with defaultMode 0400", info.Mode().Perm(),
		)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, reason(err)
	}
	return data, nil
}

// unlock reads a key that has a passphrase.
func unlock(data []byte, passphraseFile string) (ssh.Signer, error) {
	if passphraseFile == "" {
		return nil, errors.New("has a passphrase: name the file that holds it in ssh.passphraseFile, " +
			"or load the key into an agent and set ssh.agent")
	}
	passphrase, err := readSecret(passphraseFile)
	if err != nil {
		return nil, fmt.Errorf("has a passphrase; ssh.passphraseFile %s: %w", passphraseFile, err)
	}
	signer, err := ssh.ParsePrivateKeyWithPassphrase(data, bytes.TrimRight(passphrase, "\r\n"))
	if errors.Is(err, x509.IncorrectPasswordError) {
		return nil, fmt.Errorf("has another passphrase than that in ssh.passphraseFile %s", passphraseFile)
	}
	if err != nil {
		return nil, fmt.Errorf("is not a private key: %w", err)
	}
	return signer, nil
}

// modern keeps an RSA key from signing with SHA-1.
func modern(signer ssh.Signer) (ssh.Signer, error) {
	kind := signer.PublicKey().Type()
	able, ok := signer.(ssh.AlgorithmSigner)
	if !ok || kind != ssh.KeyAlgoRSA && kind != ssh.CertAlgoRSAv01 {
		return signer, nil
	}
	return ssh.NewSignerWithAlgorithms(able, []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256})
}

// certified is the key with the certificate in the file, nil if there is none that is
// valid now: the host may take the key without.
func certified(signer ssh.Signer, file string, now time.Time) (ssh.Signer, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as said above
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
	from, until := certificate.ValidAfter, certificate.ValidBefore
	at := uint64(max(0, now.Unix())) //nolint:gosec // not negative
	switch {
	case at < from:
		return nil, fmt.Errorf("certificate %s: is valid only from %s on", file, certificateTime(from))
	case until != ssh.CertTimeInfinity && at >= until:
		return nil, fmt.Errorf("certificate %s: has expired at %s: renew it", file, certificateTime(until))
	}
	signed, err := ssh.NewCertSigner(certificate, signer)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", file, err)
	}
	return signed, nil
}

func certificateTime(seconds uint64) string {
	return time.Unix(int64(min(seconds, math.MaxInt64)), 0).UTC().Format(time.RFC3339) //nolint:gosec // bounded
}

// loadAgent connects to an agent, which signs as long as the keyring is open.
func (r *Keyring) loadAgent(ctx context.Context, cfg Config) error {
	conn, err := (&net.Dialer{Timeout: cfg.Reach}).DialContext(ctx, "unix", cfg.Agent)
	if err != nil {
		return reason(err)
	}
	r.agent = conn
	// It is asked now, and again to sign while we log in.
	if err := conn.SetDeadline(time.Now().Add(cfg.Reach + cfg.Use)); err != nil {
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
		if s, err = modern(s); err != nil {
			return err
		}
		r.keys = append(r.keys, key{s, "agent"})
	}
	return nil
}

// Usable is an error when there is nothing to log in with.
func (r *Keyring) Usable() error {
	if len(r.keys) > 0 {
		return nil
	}
	return errors.Join(r.problems...)
}

// Offer is for [ssh.PublicKeysCallback]: it is asked when the host takes keys.
func (r *Keyring) Offer() ([]ssh.Signer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offered = true
	signers := make([]ssh.Signer, len(r.keys))
	for i, k := range r.keys {
		signers[i] = k.signer
	}
	return signers, nil
}

// Refused says which keys a host did not take, by fingerprint. The text is that of the failed
// handshake.
func (r *Keyring) Refused(hop fmt.Stringer, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.offered {
		return fmt.Errorf("log in as %s: the host takes no keys (PubkeyAuthentication in its sshd_config)", hop)
	}
	tried := make([]string, len(r.keys))
	for i, k := range r.keys {
		tried[i] = fmt.Sprintf(
			"%s %s (%s)", k.signer.PublicKey().Type(), ssh.FingerprintSHA256(k.signer.PublicKey()), k.source,
		)
	}
	err := fmt.Errorf("log in as %s: the host refuses the user or every key: %s; put one of their public keys into "+
		"the user's "+
		"~/.ssh/authorized_keys there (a from= before it must name this machine), and see AllowUsers and PermitRootLogin "+
		"in its sshd_config", hop, strings.Join(tried, ", "))
	if strings.Contains(text, "oo many") {
		err = fmt.Errorf("%w; it stopped after MaxAuthTries: offer fewer keys", err)
	}
	return errors.Join(append([]error{err}, r.problems...)...)
}

// Close ends the use of the agent.
func (r *Keyring) Close() {
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
