package launch

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/test/kit/child"
)

// Config says what to run.
type Config struct {
	// Name is what errors call the process; "": burstlet.
	Name string
	// Program is the path of burstlet. In tests "" is [Program].
	Program string
	// File is its configuration file.
	File string
	// Args are further flags of "burstlet run".
	Args []string
	// Env are variables beside those of [Environ].
	Env []string
	// Within is a command that runs the program in its own stead, as "ip netns exec x".
	Within []string
	// Log receives what it prints, or LogFile, a file, at its end. In tests without
	// either the end is shown when the test fails.
	Log     io.Writer
	LogFile string
}

// Run runs a burstlet until it is stopped.
func Run(cfg Config) (*child.Child, error) { return child.Start(cfg.child()) }

// ForTest runs a burstlet until the test ends it or ends, as [child.ForTest] does.
func ForTest(t testing.TB, cfg Config) *child.Child {
	t.Helper()
	if cfg.Program == "" {
		cfg.Program = Program(t)
	}
	return child.ForTest(t, cfg.child())
}

func (c Config) child() child.Config {
	if c.Name == "" {
		c.Name = "burstlet"
	}
	argv := append(append(append([]string{}, c.Within...), c.Program, "run", "--config", c.File), c.Args...)
	return child.Config{
		Name: c.Name, Program: argv[0], Args: argv[1:],
		Env: append(Environ(os.Environ()), c.Env...), Log: c.Log, LogFile: c.LogFile,
	}
}

// File writes a configuration into a directory of the test's own and returns its path.
func File(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "burstlet.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Environ is an environment for burstlet, without what would change its configuration
// or lead it to another cluster.
func Environ(environ []string) []string {
	var kept []string
	for _, variable := range environ {
		if !strings.HasPrefix(variable, "BURSTLET_") && !strings.HasPrefix(variable, "KUBECONFIG=") {
			kept = append(kept, variable)
		}
	}
	return kept
}
