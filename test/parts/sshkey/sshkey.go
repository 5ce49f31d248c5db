// Package sshkey makes the keys of hosts and of their users.
package sshkey

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Pair is a key as OpenSSH keeps it in files.
type Pair struct {
	Public  ssh.PublicKey
	Private string // PEM
}

// New makes a key.
func New(comment string) (Pair, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return Pair{}, fmt.Errorf("encode key: %w", err)
	}
	sshPublic, err := ssh.NewPublicKey(public)
	if err != nil {
		return Pair{}, fmt.Errorf("encode key: %w", err)
	}
	return Pair{Public: sshPublic, Private: string(pem.EncodeToMemory(block))}, nil
}

// Authorized is the line for authorized_keys, and what a file of a public key holds.
func (p Pair) Authorized() string { return string(ssh.MarshalAuthorizedKey(p.Public)) }

// KnownHost is the line for known_hosts that ties a host's key to an address, "host:port".
func KnownHost(key ssh.PublicKey, address string) (string, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return "", fmt.Errorf("parse address: %w", err)
	}
	return knownhosts.Line([]string{knownhosts.Normalize(address)}, key) + "\n", nil
}
