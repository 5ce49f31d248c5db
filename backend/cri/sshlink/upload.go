package sshlink

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/burstlet/burstlet/backend"
)

const (
	// identifyTimeout bounds a question to the host's shell.
	identifyTimeout = 20 * time.Second
	// uploadTimeout bounds the way of the helper to the host.
	uploadTimeout = 2 * time.Minute
	// helperName is the helper's file; its directory begins with it.
	helperName = "burstlet-helper"
)

// architectures are GOARCH words by what uname -m says.
var architectures = map[string]string{
	"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "armv7l": "arm", "i686": "386",
	"riscv64": "riscv64", "ppc64le": "ppc64le", "s390x": "s390x", "loongarch64": "loong64",
}

// machine is what the helper must fit.
type machine struct {
	system, hardware string
	// goarch is empty for unknown hardware.
	goarch string
	root   bool
	// uid is the user's number, as text.
	uid string
}

// identify asks the host what it is.
func (c *connection) identify(ctx context.Context) (machine, error) {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	out, err := c.shell(ctx, `echo "`+marker+`$(uname -s) $(uname -m) $(id -u)"`)
	if err != nil {
		return machine{}, fmt.Errorf("run a shell on the host: %w", err)
	}
	words := strings.Fields(marked(out, ""))
	if len(words) != 3 {
		return machine{}, fmt.Errorf("run a shell on the host: %q is no answer: does the user have a login shell, "+
			"and no ForceCommand?", oneLine(out))
	}
	m := machine{
		system: words[0], hardware: words[1], goarch: architectures[words[1]], uid: words[2], root: words[2] == "0",
	}
	switch {
	case m.system != "Linux":
		return m, backend.Errorf(backend.ErrUnsupported, "the host runs %s: containers need Linux", m.system)
	case m.goarch == "":
		return m, backend.Errorf(backend.ErrUnsupported, "the host's hardware %s is not known", m.hardware)
	}
	return m, nil
}

// becomeRoot makes sure that commands can be run as root.
func (c *connection) becomeRoot(ctx context.Context, m machine) error {
	if m.root {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	if _, err := c.shell(ctx, "exec sudo -n true"); err != nil {
		if errors.Is(err, backend.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		return backend.Errorf(backend.ErrDenied, "run sudo -n on the host: %w (the host operations need root: log in as "+
			"root, "+
			"or add a line to its sudoers: %s ALL=(root) NOPASSWD: ALL)", err, c.hop.User)
	}
	return nil
}

// asRoot is the command for a script that root runs.
func (m machine) asRoot(script string) string {
	if m.root {
		return "exec /bin/sh -c " + quote(script)
	}
	return "exec sudo -n /bin/sh -c " + quote(script)
}

// places are the directories for the helper, tried in turn, since programs cannot be run
// in some (noexec): those in memory first.
const places = "/run /dev/shm /tmp /var/tmp /var/lib /opt"

// findScript looks for a helper that an earlier connection brought, which is as good as
// its directory: root's alone, and named by a hash of the program. And it says whether
// the host can unpack one.
const findScript = `export LC_ALL=C
for base in %[1]s; do
	dir=$base/%[3]s
	file=$dir/%[2]s
	if [ -d "$dir" ] && [ ! -h "$dir" ] && [ -O "$dir" ] && [ -f "$file" ] && [ ! -h "$file" ] && [ -x "$file" ]; then
		echo "` + marker + `dir=$dir"
		break
	fi
done
if command -v gzip >/dev/null 2>&1; then echo "` + marker + `gzip=yes"; fi`

// uploadScript takes the helper on its standard input. What a connection that was cut
// left behind is removed, an older helper too: a part of a file at once, a whole one by a
// later upload. Where somebody else has its name, which is so only where everybody may
// write, the helper stays in a directory that no later connection finds.
const uploadScript = `umask 077
export LC_ALL=C
why=
for base in %[1]s; do
	find "$base" -maxdepth 1 -name '%[2]s.*' ! -name '%[3]s' -user root -mmin +10 -exec rm -rf {} + 2>/dev/null
	dir=$(mktemp -d "$base/%[2]s.XXXXXXXXXX" 2>&1) || { why="$why $dir;"; continue; }
	file=$dir/%[2]s
	if printf '#!/bin/sh\nexit 0\n' 2>/dev/null >"$file" && chmod 700 "$file" && out=$("$file" 2>&1); then break; fi
	why="$why $base runs no programs;"
	rm -rf "$dir"
	dir=
done
[ -n "$dir" ] && [ -d "$dir" ] || { echo "no place for the helper:$why mount one of them without noexec" >&2; exit 1; }
if %[4]s >"$file" && [ "$(wc -c <"$file")" -eq %[5]d ]; then
	kept=$base/%[3]s
	mkdir "$kept" 2>/dev/null
	if [ -d "$kept" ] && [ ! -h "$kept" ] && [ -O "$kept" ] && mv -f "$file" "$kept/%[2]s"; then
		rmdir "$dir"
		dir=$kept
	fi
	echo "` + marker + `dir=$dir"
else
	rm -rf "$dir"
	echo "the helper did not arrive whole in $dir: is it full?" >&2
	exit 1
fi`

// packed is a helper on its way.
type packed struct {
	// program is packed by gzip.
	program []byte
	// name is that of its directory: it tells versions apart.
	name string
	// keep is true for one that later connections may use.
	keep bool
}

func packedHelper(program []byte) packed {
	hash := sha256.Sum256(program)
	return packed{program: program, name: helperName + "." + hex.EncodeToString(hash[:12])}
}

// size is that of the program, which gzip keeps at the end (RFC 1952, ISIZE).
func (p packed) size() (uint32, error) {
	if len(p.program) < 4 {
		return 0, errors.New("the helper is not packed by gzip")
	}
	return binary.LittleEndian.Uint32(p.program[len(p.program)-4:]), nil
}

// find returns the directory of a helper that is on the host, "" for none, and whether
// the host can unpack one.
func (c *connection) find(ctx context.Context, m machine, p packed) (dir string, unpacks bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	out, err := c.run(ctx, m.asRoot(fmt.Sprintf(findScript, places, helperName, p.name)), nil)
	if err != nil {
		return "", false, fmt.Errorf("look for the helper on the host: %w", err)
	}
	if dir = marked(out, "dir="); !strings.HasPrefix(dir, "/") {
		dir = ""
	}
	return dir, marked(out, "gzip=") == "yes", nil
}

// upload brings the helper to the host and returns the directory that it alone is
// in.
func (c *connection) upload(ctx context.Context, m machine, p packed, unpacks bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	size, err := p.size()
	if err != nil {
		return "", err
	}
	unpack, program := "gzip -dc", p.program
	if !unpacks {
		unpack = "cat"
		if program, err = unpacked(program); err != nil {
			return "", err
		}
	}
	out, err := c.run(ctx, m.asRoot(fmt.Sprintf(uploadScript, places, helperName, p.name, unpack, size)), program)
	if err != nil {
		return "", fmt.Errorf("bring the helper to the host: %w", err)
	}
	dir := marked(out, "dir=")
	if !strings.HasPrefix(dir, "/") {
		return "", fmt.Errorf("bring the helper to the host: %q names no directory", oneLine(out))
	}
	return dir, nil
}

func unpacked(program []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("unpack the helper: %w", err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("unpack the helper: %w", err)
	}
	return out, nil
}

// startHelper runs what upload brought. It removes its directory by itself: at once, or
// where later connections find it, at its end if the host has no pods.
func (m machine) startHelper(dir string, p packed, args []string) string {
	var script strings.Builder
	option := " --remove-dir "
	if p.keep && path.Base(dir) == p.name {
		option = " --keep-dir "
	}
	script.WriteString("exec " + quote(dir+"/"+helperName) + option + quote(dir))
	for _, arg := range args {
		script.WriteString(" " + quote(arg))
	}
	return m.asRoot(script.String())
}
