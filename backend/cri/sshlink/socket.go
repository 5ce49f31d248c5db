package sshlink

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/burstlet/burstlet/backend"
)

// socketScript says what is the matter with a socket, since sshd does not. The
// flag 00010000 marks those that are listened on.
const socketScript = `p=%s
if ! e=$(LC_ALL=C ls -d -- "$p" 2>&1); then
	case $e in *[Dd]enied*) say denied ;; *) say missing ;; esac
elif [ ! -S "$p" ]; then say refused
elif [ ! -w "$p" ]; then say denied
else
	q=$(readlink -f -- "$p") || q=$p
	if grep -F " 00010000 " /proc/net/unix 2>/dev/null | grep -qE " ($(escape "$p")|$(escape "$q"))\$"
	then say listening; else say refused; fi
fi`

// socketShell defines the words of socketScript.
const socketShell = `say() { echo "` + marker + `$1"; }
escape() { printf '%s' "$1" | sed 's/[][\\.*^$+?(){}|]/\\&/g'; }
`

// explainSocket finds the reason why sshd could not open a socket: it only says
// that it could not, and the same where it is forbidden to.
func (c *connection) explainSocket(ctx context.Context, path, text string) error {
	out, err := c.shell(ctx, socketShell+fmt.Sprintf(socketScript, quote(path)))
	if err != nil {
		return fmt.Errorf("connect: %s (and the host cannot be asked why: %w)", text, err)
	}
	return socketFailure(path, text, marked(out, ""))
}

func socketFailure(path, text, word string) error {
	switch word {
	case "missing":
		return os.NewSyscallError("connect", syscall.ENOENT)
	case "denied":
		return os.NewSyscallError("connect", syscall.EACCES)
	case "refused":
		return os.NewSyscallError("connect", syscall.ECONNREFUSED)
	case "listening":
		return prohibited("unix", path)
	default:
		return backend.Errorf(backend.ErrUnavailable, "connect: %s", strings.TrimSpace(text))
	}
}
