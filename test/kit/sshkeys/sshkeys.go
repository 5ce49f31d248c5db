// Package sshkeys makes keys of SSH for tests, the same ones for the same seed.
package sshkeys

import (
	"crypto/ed25519"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// New makes the key of a seed.
func New(t testing.TB, seed byte) (ed25519.PrivateKey, ssh.Signer) {
	t.Helper()
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return private, signer
}

// Write makes a file in a directory of the test's own.
func Write(t testing.TB, name string, mode os.FileMode, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, mode); err != nil {
		t.Fatal(err)
	}
	return file
}

// File is a file with the private key of a seed.
func File(t testing.TB, seed byte) string {
	t.Helper()
	private, _ := New(t, seed)
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return Write(t, "id", 0o600, pem.EncodeToMemory(block))
}
