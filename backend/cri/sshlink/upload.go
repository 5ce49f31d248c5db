package sshlink

import (
	"context"
	"errors"
	"fmt"
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
	m := machine{system: words[0], hardware: words[1], goarch: architectures[words[1]], uid: words[2], root: words[2] == "0"}
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
		return backend.Errorf(backend.ErrDenied, "run sudo -n on the host: %w (the host operations need root: log in as root, "+
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

// uploadScript takes the helper on its standard input. It tries the places in
// turn, since programs cannot be run in some (noexec). What a connection that was
// cut left behind is removed: a part of the file at once, a whole one that was
// never started by a later upload.
const uploadScript = `umask 077
export LC_ALL=C
why=
for base in /run /dev/shm /var/tmp; do
	find "$base" -maxdepth 1 -name '%[1]s.*' -user root -mmin +10 -exec rm -rf {} + 2>/dev/null
	dir=$(mktemp -d "$base/%[1]s.XXXXXXXXXX" 2>&1) || { why="$why $dir;"; continue; }
	file=$dir/%[1]s
	if printf '#!/bin/sh\nexit 0\n' 2>/dev/null >"$file" && chmod 700 "$file" && out=$("$file" 2>&1); then break; fi
	why="$why $base runs no programs;"
	rm -rf "$dir"
	dir=
done
[ -n "$dir" ] && [ -d "$dir" ] || { echo "no place for the helper:$why mount one of them without noexec" >&2; exit 1; }
if cat >"$file" && [ "$(wc -c <"$file")" -eq %[2]d ]; then
	echo "` + marker + `dir=$dir"
else
	rm -rf "$dir"
	echo "the helper did not arrive whole in $dir: is it full?" >&2
	exit 1
fi`

// upload brings the helper to the host and returns the directory that it alone is
// in.
func (c *connection) upload(ctx context.Context, m machine, binary []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	out, err := c.run(ctx, m.asRoot(fmt.Sprintf(uploadScript, helperName, len(binary))), binary)
	if err != nil {
		return "", fmt.Errorf("bring the helper to the host: %w", err)
	}
	dir := marked(out, "dir=")
	if !strings.HasPrefix(dir, "/") {
		return "", fmt.Errorf("bring the helper to the host: %q names no directory", oneLine(out))
	}
	return dir, nil
}

// startHelper runs what upload brought. It removes its directory by itself.
func (m machine) startHelper(dir string, args []string) string {
	var script strings.Builder
	script.WriteString("exec " + quote(dir+"/"+helperName) + " --remove-dir " + quote(dir))
	for _, arg := range args {
		script.WriteString(" " + quote(arg))
	}
	return m.asRoot(script.String())
}
