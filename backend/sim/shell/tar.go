package shell

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// tarCall is a tar command line.
type tarCall struct {
	mode           byte // c, x or t
	verbose        bool
	file, dir      string
	names, unknown []string
}

// words are a kernel's, as an error.
type words string

// Error is the words.
func (w words) Error() string { return string(w) }

// tar creates, lists and extracts archives without compression, as kubectl cp
// asks for. Files have neither modes nor times of their own here.
func (p *process) tar(args []string, streams streams) Flow {
	call := readTarCall(args)
	p.status = 1
	switch {
	case len(call.unknown) > 0:
		streams.err("tar: unrecognized option: " + call.unknown[0] + "\n")
		return Continue
	case call.mode == 0:
		streams.err("tar: must specify one of -c, -x or -t\n")
		return Continue
	}
	base := p.abs(call.dir)
	if !p.isDir(base) {
		streams.err("tar: can't change directory to '" + call.dir + "': " + notFound + "\n")
		return Continue
	}
	if call.mode == 'c' {
		p.status = p.createTar(call, base, streams)
		return Continue
	}
	in := streams.in
	if call.file != "-" {
		data, why := p.contents(call.file)
		if why != "" {
			streams.err("tar: can't open '" + call.file + "': " + why + "\n")
			return Continue
		}
		in = contents(data)
	}
	return p.extractTar(call, base, in, streams)
}

// readTarCall takes letters with and without a dash before them.
func readTarCall(args []string) tarCall {
	call := tarCall{file: "-", dir: "."}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case strings.HasPrefix(arg, "--"):
			// Whose files they are makes no difference here.
			if arg != "--no-same-permissions" && arg != "--no-same-owner" {
				call.unknown = append(call.unknown, arg)
			}
			continue
		case i > 0 && (arg == "-" || arg == "" || arg[0] != '-'):
			call.names = append(call.names, arg)
			continue
		}
		for _, letter := range strings.TrimPrefix(arg, "-") {
			value := ""
			if (letter == 'f' || letter == 'C') && i+1 < len(args) {
				i++
				value = args[i]
			}
			call.take(letter, value)
		}
	}
	return call
}

// take takes one letter; f and C have a value.
func (c *tarCall) take(letter rune, value string) {
	switch letter {
	case 'c', 'x', 't':
		c.mode = byte(letter)
	case 'v':
		c.verbose = true
	case 'f':
		c.file = value
	case 'C':
		c.dir = value
	case 'm', 'p', 'o':
	default:
		c.unknown = append(c.unknown, string(letter))
	}
}

// createTar writes an archive of the names, which are as seen from base.
func (p *process) createTar(call tarCall, base string, streams streams) int32 {
	out, list := streams.out, streams.err
	if call.file != "-" {
		if why := p.create(call.file, Replace); why != "" {
			streams.err("tar: can't open '" + call.file + "': " + why + "\n")
			return 1
		}
		out, list = p.sink(p.abs(call.file)), streams.out
	}
	w := tar.NewWriter(writerFunc(out))
	var status int32
	for _, name := range call.names {
		member := strings.TrimLeft(name, "/")
		if member != name {
			streams.err("tar: removing leading '/' from member names\n")
		}
		err := p.addToTar(w, p.under(base, name), member, func(name string) {
			if call.verbose {
				list(name + "\n")
			}
		})
		if err != nil {
			streams.err("tar: " + name + ": " + err.Error() + "\n")
			status = 1
		}
	}
	if err := w.Close(); err != nil {
		streams.err("tar: " + err.Error() + "\n")
		status = 1
	}
	if status != 0 {
		streams.err("tar: error exit delayed from previous errors\n")
	}
	return status
}

func (p *process) under(base, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(base, name)
}

// addToTar adds a file, or a directory and all in it, under a member name.
func (p *process) addToTar(w *tar.Writer, name, member string, said func(string)) error {
	if e := p.Lookup(name); e.Kind == File {
		said(member)
		header := &tar.Header{Typeflag: tar.TypeReg, Name: member, Mode: 0o644, Size: int64(len(e.Data)), ModTime: p.Now()}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err := w.Write(e.Data)
		return err
	}
	names, ok := p.ReadDir(name)
	if !ok {
		return words(notFound)
	}
	if member != "" && member != "." {
		member = strings.TrimSuffix(member, "/")
		said(member + "/")
		header := &tar.Header{Typeflag: tar.TypeDir, Name: member + "/", Mode: 0o755, ModTime: p.Now()}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
	}
	for _, n := range names {
		if err := p.addToTar(w, path.Join(name, n), path.Join(member, n), said); err != nil {
			return err
		}
	}
	return nil
}

// extractTar makes what an archive holds below base, or lists it. It reads no
// further than the archive's end.
func (p *process) extractTar(call tarCall, base string, in source, streams streams) Flow {
	from := &sourceReader{in: in, alive: true}
	r := tar.NewReader(from)
	seen := false
	for {
		h, err := r.Next()
		switch {
		case !from.alive:
			return Stay
		case errors.Is(err, io.EOF) && seen:
			p.status = 0
			return Continue
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			streams.err("tar: short read\n")
			return Continue
		case err != nil:
			streams.err("tar: invalid tar magic\n")
			return Continue
		}
		seen = true
		if call.verbose || call.mode == 't' {
			streams.out(h.Name + "\n")
		}
		if call.mode == 't' {
			continue
		}
		if err := p.extract(r, h, base); err != nil {
			if !from.alive {
				return Stay
			}
			streams.err("tar: " + err.Error() + "\n")
			return Continue
		}
	}
}

// extract makes one member. Errors are tar's words.
func (p *process) extract(r io.Reader, h *tar.Header, base string) error {
	name := path.Join(base, strings.TrimLeft(h.Name, "/"))
	if !within(name, base) {
		return fmt.Errorf("name with '..' in it: '%s'", h.Name)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if p.isDir(name) {
			return nil
		}
		if why := p.Change(name, MakeDir, ""); why != "" {
			return fmt.Errorf("can't make dir %s: %s", h.Name, why)
		}
		return nil
	case tar.TypeReg:
	default:
		return fmt.Errorf("can't make %s: the simulator has only files and directories", h.Name)
	}
	if p.isDir(name) {
		return fmt.Errorf("can't open '%s': Is a directory", h.Name)
	}
	if h.Size > MaxWritten {
		return errors.New("write error: " + NoSpace)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return errors.New("short read")
	}
	switch why := p.Change(name, Replace, string(data)); why {
	case "":
		return nil
	case NoSpace:
		return errors.New("write error: " + why)
	default:
		return fmt.Errorf("can't open '%s': %s", h.Name, why)
	}
}

// within is true for a directory and all below it.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// writerFunc is a function as an io.Writer.
type writerFunc func(string)

// Write never fails: what a process writes to may end it instead.
func (f writerFunc) Write(data []byte) (int, error) {
	f(string(data))
	return len(data), nil
}

// sourceReader is a source as an io.Reader.
type sourceReader struct {
	in    source
	rest  []byte
	alive bool
}

// Read returns the next part; its end is unexpected where the process does not
// live to see it.
func (r *sourceReader) Read(data []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.rest, r.alive = r.in(); !r.alive {
			return 0, io.ErrUnexpectedEOF
		} else if r.rest == nil {
			return 0, io.EOF
		}
	}
	n := copy(data, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
