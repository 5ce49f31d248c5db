// Package criconfig is the configuration of package backend/cri: its fields, defaults and
// rules. It is small, so that package cmd/burstlet/config judges a file by the very rules
// by which the backend judges what it is made with.
//
//	config.go    the runtime and what the pods' host looks like
//	hostpath.go  which paths of the host pods may mount
//	ssh.go       how a host is reached over SSH
//
// It imports nothing of the project.
package criconfig
