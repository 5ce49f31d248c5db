package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// executable is the header of an ELF file, with a program header for a loader or
// not.
func executable(t *testing.T, machine elf.Machine, kind elf.Type, loader bool) []byte {
	t.Helper()
	header := elf.Header64{
		Type: uint16(kind), Machine: uint16(machine), Version: 1, Ehsize: 64, Phentsize: 56, Shentsize: 64,
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	header.Ident[elf.EI_VERSION] = 1
	parts := []any{&header}
	if loader {
		header.Phoff, header.Phnum = 64, 1
		parts = append(parts, elf.Prog64{Type: uint32(elf.PT_INTERP)})
	}
	var out bytes.Buffer
	for _, part := range parts {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestOnlyStaticExecutablesOfThePlatformGoIn(t *testing.T) {
	for _, tt := range []struct {
		name    string
		content []byte
		goarch  string
		err     string
	}{
		{"static", executable(t, elf.EM_AARCH64, elf.ET_EXEC, false), "arm64", ""},
		{
			"of another machine", executable(t, elf.EM_X86_64, elf.ET_EXEC, false), "arm64",
			"the executable is for EM_X86_64, not EM_AARCH64",
		},
		{"with a loader", executable(t, elf.EM_X86_64, elf.ET_EXEC, true), "amd64", "needs a loader"},
		{"a library", executable(t, elf.EM_X86_64, elf.ET_DYN, false), "amd64", "no executable but ET_DYN"},
		{"a script", []byte("#!/bin/sh\n"), "amd64", "read the executable: "},
	} {
		t.Run(tt.name, func(t *testing.T) { wantError(t, checkProgram(tt.content, tt.goarch), tt.err) })
	}
}

func TestBurstletIsNotBuiltWithoutItsHelper(t *testing.T) {
	_, err := goBuild(t.TempDir(), "v1")(t.Context(), mainProgram, "amd64")
	wantError(t, err, "run make helper")
}

func TestWhatTheCompilerSaysIsInTheError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.test/empty\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := goBuild(dir, "v1")(t.Context(), taskProgram, "amd64")
	wantError(t, err, "build ./cmd/burstlet-task for amd64: exit status 1: ")
	wantError(t, err, "directory not found")
}

// commit makes a repository with one commit at a time.
func commit(t *testing.T, at string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, args := range [][]string{{"init", "--quiet"}, {"commit", "--quiet", "--allow-empty", "--message", "one"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_COMMITTER_DATE="+at,
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@burstlet.test",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@burstlet.test")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return dir
}

func TestTheTimeIsThatOfTheCommitUnlessItIsGiven(t *testing.T) {
	committed, bare := commit(t, "1700000001 +0000"), t.TempDir()
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, ".git"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, dir, version, epoch string
		created                   int64
		revision                  bool
		err                       string
	}{
		{"commit", committed, "v1", "", 1700000001, true, ""},
		{"given", committed, "v1", "1234", 1234, true, ""},
		{"no git", bare, "v1", "", 0, false, ""},
		{"no git, given", bare, "v1", "1234", 1234, false, ""},
		{"no number", bare, "v1", "today", 0, false, `the time "today" (SOURCE_DATE_EPOCH)`},
		{"before 1970", bare, "v1", "-1", 0, false, "SOURCE_DATE_EPOCH"},
		{"damaged git", damaged, "v1", "", 0, false, "ask git for the commit: "},
		{"version for the linker", bare, "v1 -X main.x=y", "", 0, false, "the version"},
		{"no version", bare, "", "", 0, false, "the version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := releaseOf(t.Context(), tt.dir, tt.version, tt.epoch)
			wantError(t, err, tt.err)
			if tt.err != "" {
				return
			}
			if !got.created.Equal(time.Unix(tt.created, 0)) || (len(got.revision) == 40) != tt.revision ||
				got.version != tt.version {
				t.Errorf("release %+v", got)
			}
		})
	}
}

// The real compiler: what it makes for the machine that tests cannot run is looked at
// by goBuild itself.
func TestAProgramForAnotherMachineIsTheSameEachTime(t *testing.T) {
	dir, err := moduleDir(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var first []byte
	for _, flags := range []string{"", "-ldflags=-B=none -tags=other"} {
		t.Setenv("GOFLAGS", flags) // not those of whoever builds
		content, err := goBuild(dir, "v1")(t.Context(), taskProgram, "arm64")
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = content
		}
		if !bytes.Equal(first, content) {
			t.Error("two builds differ")
		}
	}
}
