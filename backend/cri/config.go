package cri

import (
	"fmt"

	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/cri/sshlink"
)

// Config says which container runtime to use and how the pods' host is arranged.
type Config = criconfig.Config

// SSH says how a host is reached.
type SSH = criconfig.SSH

// Cgroup drivers, as the kubelet names them.
const (
	CgroupDriverAuto     = criconfig.CgroupDriverAuto
	CgroupDriverCgroupfs = criconfig.CgroupDriverCgroupfs
	CgroupDriverSystemd  = criconfig.CgroupDriverSystemd
)

// Link is how a host over SSH is reached. Errors name the field.
func Link(c Config) (sshlink.Config, error) {
	hop, err := criconfig.ParseEndpoint(c.Endpoint)
	if err != nil {
		return sshlink.Config{}, fmt.Errorf("endpoint: %w", err)
	}
	cfg := sshlink.Config{
		User: hop.User, Address: hop.Address, KeyFiles: c.SSH.KeyFiles, Agent: c.SSH.Agent,
		PassphraseFile: c.SSH.PassphraseFile,
		KnownHostsFile: c.SSH.KnownHostsFile, InsecureIgnoreHostKey: c.SSH.InsecureIgnoreHostKey,
		Keepalive: c.SSH.Keepalive, KeepaliveMax: c.SSH.KeepaliveMax, Helper: c.SSH.Helper,
		HelperArgs: []string{"--root", c.WithDefaults().PodsDir},
	}
	for i, jump := range c.SSH.JumpHosts {
		hop, err := criconfig.ParseEndpoint(criconfig.SSHScheme + jump)
		if err != nil {
			return sshlink.Config{}, fmt.Errorf("ssh.jumpHosts[%d]: %w", i, err)
		}
		hop.KeyFiles = c.SSH.JumpKeyFiles[jump]
		cfg.Jumps = append(cfg.Jumps, hop)
	}
	return cfg, cfg.Validate()
}
