package sshlink

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestValidateNamesTheField(t *testing.T) {
	good := Config{User: "u", Address: "h:22", KeyFiles: []string{"/k"}, KnownHostsFile: "/h"}
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"good":     {func(*Config) {}, ""},
		"an agent": {func(c *Config) { c.KeyFiles, c.Agent = nil, "/a" }, ""},
		"insecure": {func(c *Config) { c.KnownHostsFile, c.InsecureIgnoreHostKey = "", true }, ""},
		"no key": {
			func(c *Config) { c.KeyFiles = nil }, "ssh.keyFiles: Required value: private keys to log in with, or agent",
		},
		"empty key": {
			func(c *Config) { c.KeyFiles = []string{""} }, "ssh.keyFiles[0]: Required value: the path of a private key",
		},
		"no known hosts": {
			func(c *Config) { c.KnownHostsFile = "" },
			"ssh.knownHostsFile: Required value: the keys of the host, as ssh-keyscan prints them",
		},
		"both": {
			func(c *Config) { c.InsecureIgnoreHostKey = true },
			"ssh.insecureIgnoreHostKey: Invalid value: true: excludes knownHostsFile",
		},
		"bad address": {func(c *Config) { c.Address = "h" }, `endpoint: address "h" is not host:port`},
		"bad second jump": {
			func(c *Config) { c.Jumps = []Hop{{User: "u", Address: "j:22"}, {Address: "j:22"}} },
			"ssh.jumpHosts[1]: lacks the user",
		},
		"bad keepalive": {
			func(c *Config) { c.Keepalive = -time.Second }, `ssh.keepalive: Invalid value: "-1s": must be positive`,
		},
		"bad keepaliveMax": {
			func(c *Config) { c.KeepaliveMax = -1 }, "ssh.keepaliveMax: Invalid value: -1: must be at least 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			tc.change(&c)
			got := ""
			if err := c.Validate(); err != nil {
				got = err.Error()
			}
			if got == "" != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("error %q, want %q", got, tc.want)
			}
			c.Helper = func(string) ([]byte, error) { return nil, nil }
			if _, err := New(c); (err != nil) != (tc.want != "") {
				t.Errorf("New: %v", err)
			}
		})
	}
	if _, err := New(good); err == nil || fmt.Sprint(err) != "the link needs a helper" {
		t.Errorf("without a helper: %v", err)
	}
}
