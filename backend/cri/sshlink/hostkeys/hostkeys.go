package hostkeys

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// defaultPort is sshd's.
const defaultPort = "22"

// Checker judges the key of one sshd.
type Checker struct {
	file, address string
	known         ssh.HostKeyCallback
	// Algorithms are those to ask for, the ones of known keys first: an sshd has
	// several keys, and the file need not have all of them.
	Algorithms []string

	// A connection checks again whenever it changes its session keys.
	mu       sync.Mutex
	verified bool
	refusal  error
}

// AcceptAny makes a Checker that any key satisfies.
func AcceptAny() *Checker { return &Checker{Algorithms: ssh.SupportedAlgorithms().HostKeys} }

// Load makes a Checker of the sshd at an address, as host:port, by a file as ssh's known_hosts.
func Load(file, address string) (*Checker, error) {
	h := &Checker{file: file, address: address}
	known, err := knownhosts.New(h.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf(
			"read ssh.knownHostsFile: %w; make it with: ssh-keyscan%s >> %s", err, keyscanArgs(address), h.file,
		)
	}
	if err != nil {
		return nil, fmt.Errorf("read ssh.knownHostsFile: %w", err)
	}
	authority, err := hasAuthority(h.file, address)
	if err != nil {
		return nil, fmt.Errorf("read ssh.knownHostsFile: %w", err)
	}
	h.known, h.Algorithms = known, preferKnown(known, address, authority)
	return h, nil
}

// Check is the [ssh.HostKeyCallback].
func (h *Checker) Check(address string, remote net.Addr, key ssh.PublicKey) error {
	var err error
	if h.known != nil {
		// The address decides, not the network's view of it, which a jump host hides.
		if err = h.known(address, namedAddr(address), key); err != nil {
			err = h.explain(err, key)
		}
	}
	_ = remote
	h.mu.Lock()
	defer h.mu.Unlock()
	h.verified, h.refusal = err == nil, err
	return err
}

// Verdict is whether the key was accepted, or why it was not.
func (h *Checker) Verdict() (verified bool, refusal error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.verified, h.refusal
}

func (h *Checker) explain(err error, key ssh.PublicKey) error {
	shown := key.Type() + " " + ssh.FingerprintSHA256(key)
	var revoked *knownhosts.RevokedError
	if errors.As(err, &revoked) {
		return fmt.Errorf("host key %s is revoked by %s:%d: give the host a new key",
			shown, revoked.Revoked.Filename, revoked.Revoked.Line)
	}
	var keyErr *knownhosts.KeyError
	if !errors.As(err, &keyErr) {
		return fmt.Errorf("host key %s: %w", shown, err)
	}
	if len(keyErr.Want) == 0 {
		return fmt.Errorf("host key is unknown: the host shows %s, and %s has no key for %s; "+
			"compare it on the host (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub), then add it: ssh-keyscan%s >> %s",
			shown, h.file, knownhosts.Normalize(h.address), keyscanArgs(h.address), h.file)
	}
	want := keyErr.Want[0]
	for _, k := range keyErr.Want {
		if k.Key.Type() == key.Type() {
			want = k
		}
	}
	return fmt.Errorf("host key has changed: the host shows %s, but %s:%d has %s %s; somebody may be in between. "+
		"If the host was set up anew, remove the old key (ssh-keygen -R '%s' -f %s) and add its new one",
		shown, want.Filename, want.Line, want.Key.Type(), ssh.FingerprintSHA256(want.Key),
		knownhosts.Normalize(h.address), h.file)
}

// namedAddr is an address as it was configured.
type namedAddr string

func (namedAddr) Network() string  { return "tcp" }
func (a namedAddr) String() string { return string(a) }

// keyscanArgs are the arguments for ssh-keyscan.
func keyscanArgs(address string) string {
	name, port, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return " HOST"
	case port == defaultPort:
		return " " + name
	default:
		return " -p " + port + " " + name
	}
}

// preferKnown sorts the algorithms by what the file knows about the host. The
// others stay, so that a changed key is seen and not just missing.
func preferKnown(known ssh.HostKeyCallback, address string, authority bool) []string {
	probe, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	all := ssh.SupportedAlgorithms().HostKeys // none of SHA-1
	if err != nil {
		return all
	}
	var keyErr *knownhosts.KeyError
	if !errors.As(known(address, namedAddr(address), probe), &keyErr) {
		return all
	}
	wanted := map[string]bool{}
	for _, k := range keyErr.Want {
		wanted[k.Key.Type()] = true
	}
	wanted[ssh.KeyAlgoRSASHA256], wanted[ssh.KeyAlgoRSASHA512] = wanted[ssh.KeyAlgoRSA], wanted[ssh.KeyAlgoRSA]
	rank := func(algorithm string) int {
		switch certificate := strings.Contains(algorithm, "-cert-v01@"); {
		case certificate && !authority:
			return 3 // nobody could vouch for it
		case certificate:
			return 0
		case wanted[algorithm]:
			return 1
		}
		return 2
	}
	all = slices.DeleteFunc(all, func(a string) bool { return rank(a) == 3 })
	slices.SortStableFunc(all, func(a, b string) int { return rank(a) - rank(b) })
	return all
}

// hasAuthority is true when the file names a certificate authority for the host.
func hasAuthority(file, address string) (bool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	name := knownhosts.Normalize(address)
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 1 && fields[0] == "@cert-authority" && matchesHost(fields[1], name) {
			return true, nil
		}
	}
	return false, lines.Err()
}

// matchesHost is true when patterns, as "*.example.com,!bad.example.com", have the
// host. A hashed one may: the library will tell.
func matchesHost(patterns, name string) bool {
	matched := strings.HasPrefix(patterns, "|")
	for pattern := range strings.SplitSeq(patterns, ",") {
		pattern, negated := strings.CutPrefix(pattern, "!")
		// Brackets are meant as such in this file.
		pattern = strings.NewReplacer("[", `\[`, "]", `\]`).Replace(pattern)
		if ok, err := path.Match(pattern, name); err != nil || !ok {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}
