// Package keyring has the keys that we log in to an sshd with: files, with passphrases and
// certificates, and those of an ssh-agent. They are read for each attempt, so that they can be
// replaced at any time, and no RSA key signs with SHA-1.
//
// What is wrong with a key is said by the name of the setting, and only where the others are not
// enough. No error shows a key. It imports nothing of the project.
package keyring
