package sshlink

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParseEndpoint(t *testing.T) {
	for _, tc := range []struct{ endpoint, want, err string }{
		{"ssh://root@host", "root@host:22", ""},
		{"ssh://root@host:2222", "root@host:2222", ""},
		{"ssh://root@host/", "root@host:22", ""},
		{"ssh://a.b@192.0.2.1:22", "a.b@192.0.2.1:22", ""},
		{"ssh://root@[2001:db8::1]", "root@[2001:db8::1]:22", ""},
		{"ssh://root@[2001:db8::1]:2222", "root@[2001:db8::1]:2222", ""},
		{"ssh://host", "", "lacks the user"},
		{"ssh://root@", "", "must have the form"},
		{"unix:///run/x.sock", "", "must have the form"},
		{"ssh://root:hunter2@host", "", "must not hold a password"},
		{"ssh://root:hunter2@host:port", "", "not a URL"},
		{"ssh://root@host:0", "", `port "0" is not a number from 1 to 65535`},
		{"ssh://root@host:70000", "", `port "70000" is not a number from 1 to 65535`},
		{"ssh://root@host/run/x.sock", "", "must end after the port"},
		{"ssh://root@host?x=y", "", "must end after the port"},
		{"ssh://ro%20ot@host", "", "must not contain white space"},
	} {
		hop, err := ParseEndpoint(tc.endpoint)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: error %v, want %s", tc.endpoint, err, tc.err)
			}
			continue
		}
		if err != nil || hop.String() != tc.want {
			t.Errorf("%s: %v, %v, want %s", tc.endpoint, hop, err, tc.want)
		}
	}
}

func TestValidateNamesTheField(t *testing.T) {
	good := Config{User: "u", Address: "h:22", KeyFiles: []string{"/k"}, KnownHostsFile: "/h"}
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"good":             {func(*Config) {}, ""},
		"an agent":         {func(c *Config) { c.KeyFiles, c.Agent = nil, "/a" }, ""},
		"insecure":         {func(c *Config) { c.KnownHostsFile, c.InsecureIgnoreHostKey = "", true }, ""},
		"no key":           {func(c *Config) { c.KeyFiles = nil }, "ssh.keyFiles: name the file of a private key, or set ssh.agent"},
		"empty key":        {func(c *Config) { c.KeyFiles = []string{""} }, "ssh.keyFiles[0]: must not be empty"},
		"no known hosts":   {func(c *Config) { c.KnownHostsFile = "" }, "ssh.knownHostsFile: name a file with the host's key (ssh-keyscan h)"},
		"both":             {func(c *Config) { c.InsecureIgnoreHostKey = true }, "ssh.insecureIgnoreHostKey: excludes ssh.knownHostsFile"},
		"bad address":      {func(c *Config) { c.Address = "h" }, `endpoint: address "h" is not host:port`},
		"bad second jump":  {func(c *Config) { c.Jumps = []Hop{{"u", "j:22"}, {"", "j:22"}} }, "ssh.jumpHosts[1]: lacks the user"},
		"bad keepalive":    {func(c *Config) { c.Keepalive = -time.Second }, "ssh.keepalive: must not be negative"},
		"bad keepaliveMax": {func(c *Config) { c.KeepaliveMax = -1 }, "ssh.keepaliveMax: must not be negative"},
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
