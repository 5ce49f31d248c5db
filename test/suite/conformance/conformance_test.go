package conformance

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

// short are tests of all kinds that take little time.
var short = []struct {
	// name is the end of the name, without labels.
	name string
	// row is that of the e2e suite which shows the same over SSH: then only lane all
	// runs it here.
	row string
}{
	{"Granular Checks: Pods should function for intra-pod communication: http", ""},
	{"Granular Checks: Pods should function for node-pod communication: udp [LinuxOnly]", ""},
	{"[sig-node] ConfigMap should be consumable via environment variable", "environment"},
	{
		"] Container Lifecycle Hook when create a pod with lifecycle hook should execute poststart exec hook properly",
		"poststart",
	},
	{"should report termination message from log output if TerminationMessagePolicy FallbackToLogsOnError is set", ""},
	{"Containers should be able to override the image's default command and arguments", ""},
	{"Downward API should provide default limits.cpu/memory from node allocatable", "environment"},
	{"Ephemeral Containers [NodeConformance] will start an ephemeral container in an existing pod", "ephemeral"},
	{"InitContainer [NodeConformance] should invoke init containers on a RestartAlways pod", "init-then-run"},
	{
		"Kubelet when scheduling a read only busybox container should not write to root filesystem [LinuxOnly]",
		"read-only root",
	},
	{"KubeletManagedEtcHosts should test kubelet managed /etc/hosts file", ""},
	{"should reject pod when the node OS doesn't match pod's OS", ""},
	{"Pods should be submitted and removed", "delete-while-running"},
	{"Pods should support pod readiness gates", ""},
	{"Pods should support remote command execution over websockets", "WebSocket"},
	{"] Probing container with readiness probe should not be ready before initial delay and never restart", ""},
	{"RuntimeClass should reject a Pod requesting a non-existent RuntimeClass", "RuntimeClass that is not there"},
	{
		"Security Context When creating a container with runAsUser should run the container with uid 65534 [LinuxOnly]",
		"users and groups",
	},
	{"should not allow privilege escalation when false [LinuxOnly]", "no privilege escalation"},
	{
		"Sysctls [LinuxOnly] [NodeConformance] should support sysctls [Environment:NotInUserNS]", "sysctls, safe and allowed",
	},
	{
		"Restartable Init Container Lifecycle Hook when create a pod with lifecycle hook should execute poststart exec " +
			"hook properly",
		"",
	},
	{"Downward API volume should provide podname as non-root with fsgroup [LinuxOnly]", "projected"},
	{"EmptyDir volumes should support (non-root,0666,tmpfs) [LinuxOnly]", "emptyDir in memory"},
	{"HostPath should support subPath", "subPath"},
	{"Projected combined should project all components that make up the projection API [Projection]", "projected"},
	{"Secrets should be consumable in multiple volumes in a pod", ""},
}

// subset are the names of those that the lane runs.
func subset() (names []string) {
	for _, s := range short {
		if lane.Pick(s.row == "", s.row == "", true) {
			names = append(names, s.name)
		}
	}
	return names
}

func TestSubsetIsOfTheBaseline(t *testing.T) {
	for _, s := range short {
		matching := slices.DeleteFunc(Baseline(BackendCRI), func(name string) bool {
			return !regexp.MustCompile(focusOf(s.name)).MatchString(name)
		})
		if len(matching) != 1 {
			t.Errorf("%q is the end of %q", s.name, matching)
		}
	}
}

// TestTheEndToEndSuiteHasTheRest: the rows for which the gate leaves tests out are there.
func TestTheEndToEndSuiteHasTheRest(t *testing.T) {
	var sources strings.Builder
	files, err := filepath.Glob(filepath.Join("..", "e2e", "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the e2e suite has %q, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(data)
	}
	for _, s := range short {
		row := regexp.MustCompile(`\{\s*(name: )?"` + regexp.QuoteMeta(s.row) + `",`)
		if s.row != "" && !row.MatchString(sources.String()) {
			t.Errorf("no row %q, for which the gate leaves out %q", s.row, s.name)
		}
	}
}

// focusOf matches the tests whose names end so, but for labels.
func focusOf(ends ...string) string {
	quoted := make([]string, len(ends))
	for i, end := range ends {
		quoted[i] = regexp.QuoteMeta(end)
	}
	return "(" + strings.Join(quoted, "|") + `)( \[(NodeConformance|Conformance)\])*$`
}

// TestNodeConformance runs the subset; make conformance runs all 236.
func TestNodeConformance(t *testing.T) {
	lane.From(t, lane.Gate)
	containerd.Need(t, "conformance tests", Missing())
	programs := built(t)
	program := launch.Program(t, lane.Pick(nil, nil, []string{launch.Race})...)
	dir := t.TempDir()
	cluster, err := StartCluster(t.Context(), ClusterConfig{Programs: programs, Burstlet: program, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil { // it is bounded by itself
			t.Error(err)
		}
	})
	report, err := cluster.Run(
		t.Context(), Run{Focus: focusOf(subset()...), Procs: 4, Timeout: 40 * time.Minute, Dir: dir},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range report.Failed {
		t.Errorf("%s: %s", name, report.Why[name])
	}
	if got, want := len(report.Passed), len(subset()); got != want {
		t.Errorf("%d tests passed, want %d", got, want)
	}
	if t.Failed() {
		showEnd(t, filepath.Join(dir, "burstlet.log"))
	}
}

// built finds the programs of a run, or skips the test.
func built(t *testing.T) Programs {
	t.Helper()
	programs, err := FindPrograms(t.Context())
	switch {
	case errors.Is(err, binaries.ErrNotBuilt):
		need.Missing(t, "the suite is not built: run make gate (or go run ./test/cmd/conformance build): %v", err)
	case err != nil:
		t.Fatal(err)
	}
	return programs
}

// TestImagesAreThoseOfTheSuite fails when another version of the suite names others.
func TestImagesAreThoseOfTheSuite(t *testing.T) {
	lane.From(t, lane.Gate) // the first that builds the suite
	out, err := exec.CommandContext(t.Context(), built(t).E2E, "--list-images").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(out))
	for _, name := range []string{
		agnhostImage, agnhostPrevImage, busyboxImage, glibcImage, nginxImage, noNewPrivsImage, nonRootImage, pauseImage,
	} {
		if !slices.Contains(known, name) {
			t.Errorf("no test asks for %s, but for %q", name, known)
		}
	}
}

// showEnd shows the end of a log.
func showEnd(t *testing.T, path string) {
	t.Helper()
	const tail = 50_000
	content, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	t.Logf("end of %s:\n%s", filepath.Base(path), content[max(0, len(content)-tail):])
}
