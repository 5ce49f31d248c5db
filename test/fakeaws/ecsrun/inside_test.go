package ecsrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
)

func testSecurity(t *testing.T, w *world) {
	arn := w.run(
		nil,
		shell(
			"plain",
			"id -u; grep CapEff /proc/self/status; touch /f && echo written; ulimit -c",
			func(c *types.ContainerDefinition) {
				c.Ulimits = []types.Ulimit{{Name: types.UlimitNameCore, SoftLimit: 0, HardLimit: 0}}
			},
		),
		shell("bound", "id -u; id -g; grep CapEff /proc/self/status; touch /f 2>/dev/null || echo refused; df -P -m /t | tail -1; "+
			"cat /proc/sys/net/ipv4/ip_unprivileged_port_start", func(c *types.ContainerDefinition) {
			c.User, c.ReadonlyRootFilesystem = aws.String("1000:2000"), aws.Bool(true)
			c.SystemControls = []types.SystemControl{{
				Namespace: aws.String("net.ipv4.ip_unprivileged_port_start"), Value: aws.String("81"),
			}}
			c.LinuxParameters = &types.LinuxParameters{
				Capabilities: &types.KernelCapabilities{Drop: []string{"ALL"}},
				Tmpfs:        []types.Tmpfs{{ContainerPath: aws.String("/t"), Size: 3}},
			}
		}),
		shell("app", "grep CapEff /proc/self/status", essential, func(c *types.ContainerDefinition) {
			c.LinuxParameters = &types.LinuxParameters{Capabilities: &types.KernelCapabilities{
				Add: []string{"SYS_PTRACE"}, Drop: []string{"CHOWN"},
			}}
		}, after("plain", types.ContainerConditionComplete), after("bound", types.ContainerConditionComplete)),
	)
	w.until(arn, "STOPPED", inState("STOPPED"))
	for name, want := range map[string][]string{
		"plain": {"0\n", "CapEff:\t00000000a80425fb\n", "written\n0\n"},
		"bound": {"1000\n2000\n", "CapEff:\t0000000000000000\n", "refused\n", " 3 ", "\n81\n"},
		"app":   {"CapEff:\t00000000a80c25fa\n"},
	} {
		for _, text := range want {
			if got := w.log(arn, name); !strings.Contains(got, text) {
				t.Errorf("%s: no %q in %q", name, text, got)
			}
		}
	}
}

func testPIDMode(t *testing.T, w *world) {
	arn := w.run(func(in *sdk.RegisterTaskDefinitionInput) { in.PidMode = types.PidModeTask },
		shell("other", "exec sleep 901"),
		shell("app", "while ! ps | grep -q '[s]leep 901'; do sleep 0.1; done; echo seen", essential))
	exits(t, w.until(arn, "STOPPED", inState("STOPPED")), map[string]int32{"app": 0})
}

// fetched is what wget printed into a log, between two words.
func fetched(t *testing.T, log, name string, into any) {
	t.Helper()
	_, rest, ok := strings.Cut(log, "<"+name+">")
	text, _, ended := strings.Cut(rest, "</"+name+">")
	if !ok || !ended || json.Unmarshal([]byte(text), into) != nil {
		t.Fatalf("no JSON as %s in %q", name, log)
	}
}

func testMetadata(t *testing.T, w *world) {
	ask := func(name, url string) string {
		return `echo "<` + name + `>$(wget -q -O - ` + url + `)</` + name + `>"; `
	}
	const tmd = "$ECS_CONTAINER_METADATA_URI_V4"
	// There is nothing of a container in the first moments ("ready about 1 s after").
	arn := w.run(nil, shell("first", "exit 4"),
		shell("app", "until wget -q -O - "+tmd+"/stats | grep -q total_usage; do sleep 0.1; done; "+
			ask("self", tmd)+ask("task", tmd+"/task")+ask("stats", tmd+"/stats")+ask("all", tmd+"/task/stats")+
			ask("keys", "http://169.254.170.2$AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), essential, after(
			"first", types.ContainerConditionComplete,
		)))
	task := w.until(arn, "STOPPED", inState("STOPPED"))
	log, app := w.log(arn, "app"), part(t, task, "app")
	var self struct{ DockerID, Name string }
	fetched(t, log, "self", &self)
	if self.Name != "app" || self.DockerID != *app.RuntimeId {
		t.Errorf("%+v", self)
	}
	checkTask(t, log, arn, *app.NetworkInterfaces[0].PrivateIpv4Address)
	checkStats(t, log, self.DockerID, *part(t, task, "first").RuntimeId)
	var keys map[string]string
	fetched(t, log, "keys", &keys)
	for _, name := range []string{"AccessKeyId", "SecretAccessKey", "Token", "Expiration"} {
		if keys[name] == "" {
			t.Errorf("the credentials have no %s", name)
		}
	}
	if keys["RoleArn"] != role {
		t.Errorf("credentials of %s", keys["RoleArn"])
	}
}

func checkTask(t *testing.T, log, arn, address string) {
	t.Helper()
	var task struct {
		TaskARN    string
		Limits     struct{ CPU, Memory float64 }
		Containers []struct {
			Name, KnownStatus string
			ExitCode          int
			Networks          []struct{ IPv4Addresses []string }
		}
	}
	fetched(t, log, "task", &task)
	if task.TaskARN != arn || task.Limits.CPU != 0.25 || task.Limits.Memory != 512 || len(task.Containers) != 2 {
		t.Errorf("%+v", task)
	}
	for _, c := range task.Containers {
		if c.Name == "first" && (c.KnownStatus != "STOPPED" || c.ExitCode != 4) {
			t.Errorf("%+v", c)
		}
		if len(c.Networks) != 1 || c.Networks[0].IPv4Addresses[0] != address {
			t.Errorf("%+v, want %s", c, address)
		}
	}
}

func checkStats(t *testing.T, log, running, ended string) {
	t.Helper()
	var stats struct {
		CPU struct {
			Usage struct {
				Total float64 `json:"total_usage"`
			} `json:"cpu_usage"`
		} `json:"cpu_stats"`
		Memory   struct{ Usage, Limit float64 } `json:"memory_stats"`
		Networks map[string]struct {
			Received float64 `json:"rx_bytes"`
			Sent     float64 `json:"tx_bytes"`
		}
	}
	fetched(t, log, "stats", &stats)
	if stats.CPU.Usage.Total == 0 || stats.Memory.Usage == 0 || stats.Memory.Limit != 512<<20 ||
		stats.Networks["eth0"].Received == 0 || stats.Networks["eth0"].Sent == 0 {
		t.Errorf("%+v", stats)
	}
	var all map[string]*struct{ Name string }
	fetched(t, log, "all", &all)
	if len(all) != 2 || all[running] == nil || all[ended] != nil {
		t.Errorf("%+v", all)
	}
}

// The agent of ECS Exec is root's in a container of another user's, and of its cgroup: what
// counts there counts it. It is nobody's child there, and goes with its container.
func testAgent(t *testing.T, w *world) {
	const find = `for p in /proc/[0-9]*; do case "$(tr '\0' ' ' <$p/cmdline 2>/dev/null)" in *amazon-ssm-age[n]t*) ` +
		`echo "$(grep -E '^(PPid|Uid):' $p/status | tr '\n\t' '  ')"; ` +
		`[ "$(cat $p/cgroup)" = "$(cat /proc/1/cgroup)" ] && echo "of its cgroup";; esac; done`
	arn := w.run(nil, shell("app", "id -u; while [ ! -e /tmp/go ]; do sleep 0.1; done; exit 3", essential,
		func(c *types.ContainerDefinition) { c.User = aws.String("1000") }))
	w.until(arn, "RUNNING", inState("RUNNING"))
	var out bytes.Buffer
	w.eventually(out.String, func() bool {
		out.Reset()
		code, err := w.server.Exec(t.Context(), ecs.ExecCall{
			TaskARN: arn, Container: "app", Argv: []string{"sh", "-c", find}, Stdout: &out,
		})
		return code == 0 && err == nil && strings.Contains(out.String(), "PPid: 0 Uid: 0 0 0 0") &&
			strings.Contains(out.String(), "of its cgroup")
	})
	if n := strings.Count(out.String(), "PPid:"); n != 1 {
		t.Errorf("%d agents: %s", n, out.String())
	}
	w.do(arn, "app", "touch", "/tmp/go")
	exits(t, w.until(arn, "STOPPED", inState("STOPPED")), map[string]int32{"app": 3})
}

func testTerminal(t *testing.T, w *world) {
	arn := w.run(nil, shell("app", "sleep 900", essential))
	task := w.until(arn, "RUNNING", inState("RUNNING"))
	for _, a := range part(t, task, "app").ManagedAgents {
		if a.Name != types.ManagedAgentNameExecuteCommandAgent || *a.LastStatus != "RUNNING" {
			t.Errorf("%+v", a)
		}
	}
	in, typed := io.Pipe()
	sizes := make(chan ecs.TerminalSize, 1)
	sizes <- ecs.TerminalSize{Cols: 99, Rows: 33}
	var out bytes.Buffer
	go func() {
		// Read fails if the command ended early, which the test then sees.
		_, _ = io.WriteString(typed, "while [ \"$(stty size)\" != '33 99' ]; do sleep 0.1; done; tty; exit 6\n")
	}()
	code, err := w.server.Exec(t.Context(), ecs.ExecCall{
		TaskARN: arn, Container: "app", Argv: []string{"sh"}, Sizes: sizes, Stdin: in, Stdout: &out,
	})
	if code != 6 || err != nil || !strings.Contains(out.String(), "/dev/pts/") {
		t.Errorf("%d, %v, %q", code, err, out.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	started := watcher{text: "now", seen: cancel}
	if _, err := w.server.Exec(ctx, ecs.ExecCall{
		TaskARN: arn, Container: "app", Argv: []string{"sh", "-c", "echo now; sleep 800"}, Stdout: &started,
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled command: %v", err)
	}
	left := ecs.ExecCall{TaskARN: arn, Container: "app", Argv: []string{"sh", "-c", "ps | grep -c '[s]leep 800'"}}
	if code, err := w.server.Exec(t.Context(), left); code != 1 || err != nil {
		t.Errorf("a cancelled command lives on: %d, %v", code, err)
	}
	if _, err := w.server.Exec(
		t.Context(), ecs.ExecCall{TaskARN: arn, Container: "app", Argv: []string{"/none"}},
	); err == nil {
		t.Error("a command that is not there")
	}
	if _, err := w.server.Exec(
		t.Context(), ecs.ExecCall{TaskARN: arn, Container: "none", Argv: []string{"sh"}},
	); err == nil {
		t.Error("a command in no container")
	}
	w.server.FailHost(arn)
	w.until(arn, "STOPPED", inState("STOPPED"))
}

// What ECS Exec's sessions rest on: once a terminal is raw, all bytes of both ways
// pass, and those shown before the end are there at the end.
func testRawTerminal(t *testing.T, w *world) {
	arn := w.run(nil, shell("app", "sleep 900", essential))
	w.until(arn, "RUNNING", inState("RUNNING"))
	const blocks, size = 64, 4096
	block := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	in, typed := io.Pipe()
	var out bytes.Buffer
	ready := &watcher{text: "ready", seen: sync.OnceFunc(func() {
		go func() {
			for range blocks {
				if _, err := typed.Write(block); err != nil {
					return // the command ended early, which the test sees
				}
			}
		}()
	})}
	script := fmt.Sprintf("stty raw -echo; echo ready; head -c %d; exit 5", blocks*size)
	code, err := w.server.Exec(t.Context(), ecs.ExecCall{
		TaskARN: arn, Container: "app", Argv: []string{"sh", "-c", script}, Stdin: in, Stdout: io.MultiWriter(&out, ready),
	})
	want := "ready\n" + strings.Repeat(string(block), blocks)
	if code != 5 || err != nil || out.String() != want {
		t.Errorf("%d, %v, %d bytes, want %d", code, err, out.Len(), len(want))
	}
	if err := typed.Close(); err != nil {
		t.Error(err)
	}
	for range 30 {
		out.Reset()
		code, err := w.server.Exec(
			t.Context(), ecs.ExecCall{TaskARN: arn, Container: "app", Argv: []string{"echo", "last"}, Stdout: &out},
		)
		if code != 0 || err != nil || out.String() != "last\r\n" {
			t.Fatalf("%d, %v, %q", code, err, out.String())
		}
	}
	w.server.FailHost(arn)
	w.until(arn, "STOPPED", inState("STOPPED"))
}

// watcher calls seen when a text was written.
type watcher struct {
	buf  bytes.Buffer
	text string
	seen func()
}

func (w *watcher) Write(p []byte) (int, error) {
	w.buf.Write(p)
	if strings.Contains(w.buf.String(), w.text) {
		w.seen()
	}
	return len(p), nil
}
