package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/burstlet/burstlet/cmd/burstlet/backends"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

type answers struct {
	Version int `json:"version"`
}

func (answers) WriteTable(out io.Writer) error {
	_, err := io.WriteString(out, "table\n")
	return err
}

// trialThat counts how often it ran.
func trialThat(ran *int, fails error) backends.Trial {
	return backends.Trial{Tasks: 7, Dollars: 0.0072, Run: func(context.Context) (backends.Answers, error) {
		*ran++
		return answers{1}, fails
	}}
}

func TestTryAsksFirst(t *testing.T) {
	for _, tc := range []struct {
		name, typed string
		yes         bool
		ran         int
		wrong       string
	}{
		{name: "no terminal", wrong: "give --yes, or answer on a terminal"},
		{name: "yes", yes: true, ran: 1},
		{name: "typed y", typed: "y\n", ran: 1},
		{name: "typed n", typed: "n\n", wrong: "nothing was tried"},
		{name: "typed nothing", typed: "\n", wrong: "nothing was tried"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var in io.Reader = strings.NewReader("y\n") // a pipe is nobody's consent
			if tc.typed != "" {
				in = typed(t, tc.typed)
			}
			var out bytes.Buffer
			ran := 0
			file := filepath.Join(t.TempDir(), "seen.json")
			err := tryNode(t.Context(), &out, "node n", trialThat(&ran, nil), TrialOptions{Yes: tc.yes, In: in, Output: file})
			if ran != tc.ran || (err != nil) != (tc.wrong != "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("ran %d times, %v", ran, err)
			}
			if !strings.HasPrefix(out.String(), "node n: 7 tasks of the smallest size") ||
				!strings.Contains(out.String(), "at most $0.007") {
				t.Errorf("%s", out.String())
			}
			text, err := os.ReadFile(file)
			if (err == nil) != (tc.ran > 0) || err == nil && string(text) != "{\n  \"version\": 1\n}\n" {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}

// typed is a terminal on which somebody typed.
func typed(t *testing.T, text string) *os.File {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = master.Close()
		_ = slave.Close()
	})
	if _, err := io.WriteString(master, text); err != nil {
		t.Fatal(err)
	}
	return slave
}

// What was seen is written also when not all could be removed, which is told.
func TestTryTellsWhatIsLeft(t *testing.T) {
	var out bytes.Buffer
	ran, left := 0, errors.New("a task is left")
	err := tryNode(t.Context(), &out, "node n", trialThat(&ran, left), TrialOptions{Yes: true, Output: "-"})
	if !errors.Is(err, left) || !strings.HasSuffix(out.String(), "table\n{\n  \"version\": 1\n}\n") {
		t.Errorf("%v: %s", err, out.String())
	}
	ran = 0
	err = tryNode(
		t.Context(), &out, "node n", trialThat(&ran, nil), TrialOptions{Yes: true, Output: t.TempDir() + "/no/such/place"},
	)
	if err == nil || ran != 0 {
		t.Errorf("ran %d times though nothing can be written: %v", ran, err)
	}
}

func TestTryWantsOneNodeOnECS(t *testing.T) {
	sim := config.Configuration{Backend: config.Backend{Type: config.BackendSim}}
	ecs := config.Configuration{
		Backend: config.Backend{Type: config.BackendECS, ECS: &config.ECS{Region: "us-east-1", Cluster: "c"}},
	}
	for n, nodes := range map[int][]config.Configuration{0: {sim}, 2: {ecs, sim, ecs}} {
		err := Try(t.Context(), io.Discard, nodes, Options{}, TrialOptions{})
		if err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf("this one has %d", n)) {
			t.Errorf("%v", err)
		}
	}
	if err := Try(t.Context(), io.Discard, []config.Configuration{sim, ecs}, Options{}, TrialOptions{}); err == nil ||
		!strings.Contains(err.Error(), "--yes") {
		t.Errorf("%v", err)
	}
}
