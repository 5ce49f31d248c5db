package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// nodeConformance selects the tests that nodes are held to.
	nodeConformance = "NodeConformance"
	// skipAlways are the tests that need what clusters do not have by default.
	skipAlways = `\[Disruptive\]|\[Flaky\]|\[Feature:|\[Alpha\]|\[Beta\]`
	serial     = `\[Serial\]`
	// interruptWait is how long ginkgo may take to clean up when it is interrupted.
	interruptWait = 2 * time.Minute
)

// Run says which tests to run.
type Run struct {
	// Focus is a regular expression of their names; "" for all.
	Focus string
	// Skip is one of names to leave out beside those that are left out always.
	Skip string
	// Label is ginkgo's filter of labels; "" for NodeConformance.
	Label string
	// Serial runs those that must run alone, instead of all others.
	Serial bool
	// Features runs those of features, whatever their label and whether they must run
	// alone, instead of all others; Focus takes the place of the list of features.
	Features bool
	// Procs is how many run at a time.
	Procs int
	// Timeout bounds the run.
	Timeout time.Duration
	// Dir is an existing directory for e2e.log and the JUnit file.
	Dir string
	// Out receives what the suite prints beside e2e.log; nil: nothing.
	Out io.Writer
}

// Whole says that a run is of all tests that the baseline has.
func (r Run) Whole() bool { return r.Focus == "" && r.Skip == "" && r.Label == "" && !r.Serial }

// Baseline are the names of those that pass of what the run selects: what fails besides is
// no regression.
func (r Run) Baseline(backend string) []string {
	if r.Features {
		return namesOf(featuresBaseline)
	}
	return Baseline(backend)
}

// selection are ginkgo's own arguments.
func (r Run) selection() []string {
	skip, label, procs := skipAlways+"|"+serial, cmp.Or(r.Label, nodeConformance), r.Procs
	if r.Serial {
		skip, label, procs = skipAlways, label+" && Serial", 1
	}
	var focus []string
	if r.Focus != "" {
		focus = []string{r.Focus}
	}
	if r.Features {
		skip, label, procs = skipOfFeatures, r.Label, r.Procs // what must run alone does so beside procs, too
		if r.Focus == "" {
			focus = featureTests()
		}
	}
	if r.Skip != "" {
		skip += "|" + r.Skip
	}
	args := []string{
		"run", "--no-color", "--silence-skips", "--timeout=" + r.Timeout.String(), "--procs=" + strconv.Itoa(max(procs, 1)),
		"--label-filter=" + label, "--skip=" + skip,
	}
	for _, f := range focus { // ginkgo runs what one of them matches
		args = append(args, "--focus="+f)
	}
	return args
}

// args are all arguments of ginkgo: those after "--" are the suite's.
func (r Run) args(c *Cluster) []string {
	return append(r.selection(), c.cfg.Programs.E2E, "--",
		"--kubeconfig="+c.plane.KubeconfigPath(), "--kubectl-path="+c.plane.Kubectl(), "--provider=local",
		"--report-dir="+r.Dir, "--e2e-output-dir="+r.Dir, "--disable-log-dump")
}

// Run runs tests and returns their outcome, which is no error when some failed.
func (c *Cluster) Run(ctx context.Context, r Run) (Report, error) {
	log, err := os.Create(filepath.Join(r.Dir, "e2e.log"))
	if err != nil {
		return Report{}, fmt.Errorf("make the suite's log: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-c.node.failed:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	runErr := c.ginkgo(ctx, r, log)
	if err := log.Close(); err != nil {
		return Report{}, fmt.Errorf("close the suite's log: %w", err)
	}
	if cause := context.Cause(ctx); cause != nil {
		return Report{}, fmt.Errorf("run the suite: %w", cause)
	}
	report, err := readReport(filepath.Join(r.Dir, "junit_01.xml"))
	if err != nil {
		return Report{}, errors.Join(err, runErr)
	}
	var exit *exec.ExitError
	if runErr != nil && (!errors.As(runErr, &exit) || len(report.Failed) == 0) {
		return Report{}, runErr
	}
	return report, nil
}

func (c *Cluster) ginkgo(ctx context.Context, r Run, log io.Writer) error {
	if r.Out != nil {
		log = io.MultiWriter(log, r.Out)
	}
	cmd := exec.CommandContext(ctx, c.cfg.Programs.Ginkgo, r.args(c)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = r.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Ginkgo leaves it to its processes to hear an interrupt, as from a terminal.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptWait
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run ginkgo: %w; see e2e.log", err)
	}
	return nil
}
