package remotehost

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// keyPair is a key as OpenSSH keeps it in files.
type keyPair struct {
	public  ssh.PublicKey
	private string // PEM
}

func newKey(comment string) (keyPair, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("make key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return keyPair{}, fmt.Errorf("encode key: %w", err)
	}
	sshPublic, err := ssh.NewPublicKey(public)
	if err != nil {
		return keyPair{}, fmt.Errorf("encode key: %w", err)
	}
	return keyPair{public: sshPublic, private: string(pem.EncodeToMemory(block))}, nil
}

// makeUserKey makes the key that opens both users' accounts.
func (h *Host) makeUserKey() error {
	key, err := newKey("burstlet test")
	if err != nil {
		return err
	}
	authorized := ssh.MarshalAuthorizedKey(key.public)
	if err := os.WriteFile(h.layout.key(), []byte(key.private), 0o600); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	if err := os.WriteFile(h.layout.key()+".pub", authorized, 0o644); err != nil {
		return fmt.Errorf("write public key: %w", err)
	}
	for _, home := range []string{"/root", "/home/burst"} {
		if err := h.writeFile(diskFile{path: home + "/.ssh/authorized_keys", content: string(authorized), mode: 0o600}); err != nil {
			return err
		}
	}
	if err := os.Chown(h.layout.disk("/home/burst/.ssh/authorized_keys"), burstID, burstID); err != nil {
		return fmt.Errorf("give key to its user: %w", err)
	}
	return nil
}

// makeHostKey gives sshd a new key from its next start on.
func (h *Host) makeHostKey() error {
	key, err := newKey(h.hostname())
	if err != nil {
		return err
	}
	if err := h.writeFile(diskFile{path: hostKey, content: key.private, mode: 0o600}); err != nil {
		return err
	}
	return h.writeFile(diskFile{path: hostKey + ".pub", content: string(ssh.MarshalAuthorizedKey(key.public)), mode: 0o644})
}

// TrustHostKey writes the host's present key into the file of known hosts,
// which Start did, and which is to be done after ChangeHostKey.
func (h *Host) TrustHostKey() error {
	line, err := h.KnownHostsLine(h.link.Address())
	if err != nil {
		return err
	}
	if err := os.WriteFile(h.layout.knownHosts(), []byte(line), 0o644); err != nil {
		return fmt.Errorf("write known hosts: %w", err)
	}
	return nil
}

// KnownHostsLine is the line for known_hosts that ties the host's present key to
// an address, "host:port".
func (h *Host) KnownHostsLine(address string) (string, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return "", fmt.Errorf("parse address: %w", err)
	}
	content, err := os.ReadFile(h.layout.disk(hostKey + ".pub"))
	if err != nil {
		return "", fmt.Errorf("read host key: %w", err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(content)
	if err != nil {
		return "", fmt.Errorf("parse host key: %w", err)
	}
	return knownhosts.Line([]string{knownhosts.Normalize(address)}, key) + "\n", nil
}
