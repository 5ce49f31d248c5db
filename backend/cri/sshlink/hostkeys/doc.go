// Package hostkeys judges who an sshd says it is, by a file as ssh's known_hosts: plain and hashed
// names, patterns, authorities, revoked keys. A key that is unknown or has changed is refused with
// what to do about it. It imports nothing of the project.
package hostkeys
