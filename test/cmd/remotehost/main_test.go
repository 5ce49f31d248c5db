package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// safeConfig is what a file must say beside its backend.
const safeConfig = "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind +
	"\nnode: {name: far}\nkubeletAPI: {selfSigned: true}\n"

func TestPrintedSectionIsAConfiguration(t *testing.T) {
	h := remotehost.ForTest(t)
	file := filepath.Join(t.TempDir(), "burstlet.yaml")
	if err := os.WriteFile(file, []byte(safeConfig+section(h, remotehost.Burst)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	cri := c.Each()[0].Backend.CRI
	if cri == nil || cri.SSH == nil || cri.Endpoint != h.EndpointOf(remotehost.Burst) ||
		cri.SSH.KnownHostsFile != h.KnownHostsFile() {
		t.Errorf("the file says %+v", cri)
	}
}

func TestUpRefuses(t *testing.T) {
	for _, args := range [][]string{{"up", "--hosts", "0"}, {"up", "--user", "nobody"}, {"up", "much"}} {
		cmd := rootCommand()
		cmd.SetArgs(args)
		cmd.SetOut(&bytes.Buffer{})
		if err := cmd.Execute(); err == nil {
			t.Errorf("%s was accepted", strings.Join(args, " "))
		}
	}
}
