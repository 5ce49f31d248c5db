package remotehost

import (
	"fmt"
	"os"

	"golang.org/x/crypto/ssh"

	"github.com/burstlet/burstlet/test/parts/sshkey"
)

// makeUserKey makes the key that opens both users' accounts.
func (h *Host) makeUserKey() error {
	key, err := sshkey.New("burstlet test")
	if err != nil {
		return err
	}
	authorized := key.Authorized()
	if err := os.WriteFile(h.layout.key(), []byte(key.Private), 0o600); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	if err := os.WriteFile(h.layout.key()+".pub", []byte(authorized), 0o644); err != nil {
		return fmt.Errorf("write public key: %w", err)
	}
	for _, home := range []string{"/root", "/home/burst"} {
		if err := h.writeFile(diskFile{path: home + "/.ssh/authorized_keys", content: authorized, mode: 0o600}); err != nil {
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
	key, err := sshkey.New(h.hostname())
	if err != nil {
		return err
	}
	if err := h.writeFile(diskFile{path: hostKey, content: key.Private, mode: 0o600}); err != nil {
		return err
	}
	return h.writeFile(diskFile{path: hostKey + ".pub", content: key.Authorized(), mode: 0o644})
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
	content, err := os.ReadFile(h.layout.disk(hostKey + ".pub"))
	if err != nil {
		return "", fmt.Errorf("read host key: %w", err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(content)
	if err != nil {
		return "", fmt.Errorf("parse host key: %w", err)
	}
	return sshkey.KnownHost(key, address)
}
