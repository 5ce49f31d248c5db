package intask

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A session begins with one line: of the server, its host key, or of the program
// that carries it, why it cannot.
const (
	hello      = "burstlet-session/1 "
	helloKey   = hello + "key "
	helloError = hello + "error "
	// maxHello bounds the line.
	maxHello = 1024
)

// Numbers of a session.
const (
	// connectLimit bounds the way to the container's server.
	connectLimit = 5 * time.Second
	connectAgain = 50 * time.Millisecond
	// idle is how long a client may send nothing: it asks every half minute whether
	// the server is there. ECS leaves a session that is lost open for 20 minutes.
	idle = 3 * time.Minute
)

var containerName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Session carries a session of ECS Exec, on whose terminal it runs, to the server
// of a container: the only argument is its name, or none stands for its own.
func (t Task) Session(ctx context.Context, in, out *os.File, args []string) error {
	if len(args) > 1 || len(args) == 1 && !containerName.MatchString(args[0]) {
		return errors.New("session: want the name of a container")
	}
	if err := CarrySession(ctx, in, out, filepath.Join(t.runDir(), strings.Join(args, ""), AgentSocket)); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	return nil
}

// CarrySession carries bytes as lines of base64 between a terminal, which it makes
// raw, and the server on a socket, until either ends.
func CarrySession(ctx context.Context, in, out *os.File, socket string) error {
	if err := makeRaw(in); err != nil {
		return err
	}
	conn, err := dialServer(ctx, socket)
	if err != nil {
		text := helloError + "its server cannot be reached: " + err.Error() + "\n"
		_, werr := io.WriteString(out, text)
		return errors.Join(err, werr)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // reads end with it
	defer stop()
	defer func() { _ = conn.Close() }()
	from := bufio.NewReader(conn)
	line, err := readHello(conn, from)
	if err == nil {
		_, err = io.WriteString(out, line)
	}
	if err != nil {
		return fmt.Errorf("greet: %w", err)
	}
	lost := time.AfterFunc(idle, func() { _ = conn.Close() })
	defer lost.Stop()
	go func() {
		// A terminal cannot be read with a deadline: the process ends before this does.
		_, _ = io.Copy(conn, NewLineReader(touched{in, lost}))
		_ = conn.Close()
	}()
	_, err = io.Copy(NewLineWriter(out), from)
	if errors.Is(err, net.ErrClosed) { // by us: the client has gone
		err = nil
	}
	return err
}

// dialServer connects to a server, which listens a moment after its container has started.
func dialServer(ctx context.Context, socket string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	again := time.NewTicker(connectAgain)
	defer again.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err == nil || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ECONNREFUSED) {
			return conn, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// readHello reads the server's first line.
func readHello(conn net.Conn, from *bufio.Reader) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(connectLimit)); err != nil {
		return "", err
	}
	line, err := from.ReadString('\n')
	if err != nil {
		return "", err
	}
	return line, conn.SetReadDeadline(time.Time{})
}

// touched puts off the end with everything that is read.
type touched struct {
	io.Reader
	lost *time.Timer
}

// Read reads.
func (t touched) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.lost.Reset(idle)
	return n, err
}

// makeRaw lets all bytes of a terminal pass as they are (termios(3): cfmakeraw).
func makeRaw(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("make the terminal raw: %w", err)
	}
	cerr := raw.Control(func(fd uintptr) {
		var t *unix.Termios
		if t, err = unix.IoctlGetTermios(int(fd), unix.TCGETS); err != nil {
			return
		}
		t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
		t.Oflag &^= unix.OPOST
		t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
		t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
		t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
		err = unix.IoctlSetTermios(int(fd), unix.TCSETS, t)
	})
	if err = errors.Join(cerr, err); err != nil {
		return fmt.Errorf("make the terminal raw: %w", err)
	}
	return nil
}

// ErrNoServer is in the chain of an error about a session whose server does not listen.
var ErrNoServer = errors.New("no server")

// Hello reads the line that a session begins with, and returns the host key of the
// server that speaks SSH behind it. What the terminal shows before is passed over.
func Hello(r *bufio.Reader) (key []byte, err error) {
	for left := maxHello; left > 0; {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("the program burstlet-task did not begin (it said %q): %w", shown(line), err)
		}
		left -= len(line)
		line = strings.TrimRight(line, "\r\n")
		if _, text, ok := strings.Cut(line, helloError); ok {
			return nil, fmt.Errorf("%w: the program burstlet-task said: %s", ErrNoServer, shown(text))
		}
		if _, text, ok := strings.Cut(line, helloKey); ok {
			if key, err = base64.StdEncoding.DecodeString(text); err != nil {
				return nil, errors.New("the key of the container's server cannot be read")
			}
			return key, nil
		}
	}
	return nil, errors.New("something else than the program burstlet-task answered")
}

// shown is a text cut to what an error may have.
func shown(text string) string { return strings.TrimSpace(text[:min(len(text), 200)]) }
