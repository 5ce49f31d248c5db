package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestRemoveCgroups has directories in the place of cgroups: both go by rmdir,
// and a file in a directory keeps it as a process keeps its cgroup.
func TestRemoveCgroups(t *testing.T) {
	root := t.TempDir()
	dead := startShell(t, "echo ready")
	<-dead.done
	ofDead := cgroupPrefix + strconv.Itoa(dead.cmd.Process.Pid)
	ofLiving := cgroupPrefix + strconv.Itoa(os.Getppid())
	for _, dir := range []string{
		ownCgroup() + "/besteffort/pod1", ofDead + "/pod1", ofLiving + "/pod1", "memory/" + ownCgroup(),
		"memory/" + ofDead + "/besteffort", "memory/" + ofLiving, "memory/besteffort", cgroupPrefix + "mine",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeCgroups(root); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{
		ownCgroup(): false, ofDead: false, "memory/" + ownCgroup(): false, "memory/" + ofDead: false,
		ofLiving + "/pod1": true, "memory/" + ofLiving: true, "memory/besteffort": true, cgroupPrefix + "mine": true,
	} {
		if _, err := os.Stat(filepath.Join(root, dir)); (err == nil) != want {
			t.Errorf("%s: there %t, wanted %t", dir, err == nil, want)
		}
	}

	if err := os.MkdirAll(filepath.Join(root, ownCgroup(), "busy"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ownCgroup(), "busy", "process"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expectError(t, removeCgroups(root), "directory not empty")
}
