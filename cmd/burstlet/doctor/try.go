package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/backends"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// TrialOptions say how a trial is made.
type TrialOptions struct {
	// Yes goes on without asking.
	Yes bool
	// In is where the answer comes from: it must be a terminal.
	In io.Reader
	// Image is that of the tasks; empty: the backend's own choice.
	Image string
	// Output is the file for what was seen; "-": where the table goes too.
	Output string
}

// Try runs tasks that answer what the service of the one node that has such a backend
// does not document, prints and writes what was seen. Errors: nothing was tried, or not
// all was removed.
func Try(ctx context.Context, out io.Writer, nodes []config.Configuration, o Options, t TrialOptions) error {
	var found []config.Configuration
	var prepare func(backends.Node, string) backends.Trial
	for _, node := range nodes {
		kind, err := backends.Of(node.Backend.Type)
		if err != nil {
			return err
		}
		if kind.Try != nil {
			found, prepare = append(found, node), kind.Try
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("--try is for a configuration with one node of backend.type ecs, this one has %d", len(found))
	}
	node := found[0]
	trial := prepare(backends.Node{Config: node, Identity: access.StandInIdentity(node), Version: o.Version}, t.Image)
	return tryNode(ctx, out, fmt.Sprintf("node %s (%s)", node.Node.Name, place(node.Backend)), trial, t)
}

// tryNode says what a trial costs, asks, makes it, and prints and writes its answers.
func tryNode(ctx context.Context, out io.Writer, node string, trial backends.Trial, t TrialOptions) error {
	if _, err := fmt.Fprintf(out, "%s: %d tasks of the smallest size run for some minutes and are removed. They cost at "+
		"most $%.3f, beside logs and traffic.\n", node, trial.Tasks, trial.Dollars); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if err := t.confirm(out); err != nil {
		return err
	}
	file, err := t.open(out)
	if err != nil {
		return err
	}
	answers, failed := trial.Run(ctx)
	if answers == nil {
		return errors.Join(failed, file.Close())
	}
	err = answers.WriteTable(out)
	text, jsonErr := json.MarshalIndent(answers, "", "  ")
	if err = errors.Join(err, jsonErr); err == nil {
		_, err = file.Write(append(text, '\n'))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = fmt.Errorf("write %s: %w", t.Output, err)
	}
	return errors.Join(failed, err)
}

// confirm asks on a terminal.
func (t TrialOptions) confirm(out io.Writer) error {
	if t.Yes {
		return nil
	}
	in, ok := t.In.(*os.File)
	if ok {
		_, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
		ok = err == nil
	}
	if !ok {
		return errors.New("--try makes tasks that cost money: give --yes, or answer on a terminal")
	}
	if _, err := io.WriteString(out, "Go on? [y/N] "); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was tried")
	}
	return nil
}

// open opens the file before anything is paid for.
func (t TrialOptions) open(out io.Writer) (io.WriteCloser, error) {
	if t.Output == "-" {
		return unclosed{out}, nil
	}
	file, err := os.OpenFile(t.Output, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--try-output: %w", err)
	}
	return file, nil
}

// unclosed is somebody else's to close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
