package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/remotehost"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

func TestFlagsThatDoNotGoTogether(t *testing.T) {
	for _, args := range [][]string{
		{"--containers", "--cri-socket", "/s"},
		{"--image", "x.tar"},
		{"--cri-socket", "/s"},
		{"--cri-socket", "/s", "--dir", "/d", "--image", "x.tar"},
	} {
		cmd := command()
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// facts waits for lines NAME=VALUE that the command prints.
func facts(t *testing.T, out *logs.Buffer, done <-chan error, last string) map[string]string {
	t.Helper()
	printed(t, out, done, last+"=")
	got := map[string]string{}
	for line := range strings.Lines(out.String()) {
		name, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[name] = v
	}
	return got
}

func TestEndsWithItsContainerd(t *testing.T) {
	containerd.Need(t, "remote host", remotehost.Missing())
	cmd, out, done := command(), &logs.Buffer{}, make(chan error, 1)
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--containers"})
	go func() { done <- cmd.ExecuteContext(t.Context()) }()
	socket := facts(t, out, done, "MACHINE")["CRI_SOCKET"]
	pid, _, _ := strings.Cut(strings.TrimPrefix(socket, "unix:///proc/"), "/") // of the host's PID 1
	kill := `for p in /proc/[0-9]*; do if [ "$(cat $p/comm)" = containerd ]; then kill -ABRT ${p#/proc/}; fi; done`
	if out, err := exec.CommandContext(
		t.Context(), "nsenter", "--target", pid, "--mount", "--pid", "sh", "-c", kill,
	).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "containerd ended by itself") {
		t.Errorf("got %v", err)
	}
}

func TestServesContainers(t *testing.T) {
	containerd.Need(t, "remote host", remotehost.Missing())
	busybox, err := images.Busybox()
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "images.tar")
	const mine = "registry.test/mine:1"
	if err := images.WriteArchive(archive, map[string]v1.Image{mine: busybox}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd, out, done := command(), &logs.Buffer{}, make(chan error, 1)
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--containers", "--image", archive, "--queue", "q"})
	go func() { done <- cmd.ExecuteContext(ctx) }()
	got := facts(t, out, done, "QUEUE_URL")
	if got["MACHINE"] == "" || !strings.HasPrefix(got["ECS_URL"], "http://"+got["MACHINE"]+":") ||
		got["SHARED_DIR"] == "" || got["TASKS_SUBNET"] == "" {
		t.Errorf("%v", got)
	}
	url := got["ECS_URL"]
	call(t, url, "RegisterTaskDefinition", `{"family":"f","networkMode":"awsvpc","cpu":"256","memory":"512","requiresCompatibilities":["FARGATE"],`+
		`"containerDefinitions":[{"name":"app","image":"`+mine+`","entryPoint":["sh","-c","exit 9"]}]}`)
	run := call(
		t, url, "RunTask",
		`{"taskDefinition":"f","launchType":"FARGATE","networkConfiguration":{"awsvpcConfiguration":{"subnets":["subnet-1"]}}}`,
	)
	awaitExit(t, url, run.Tasks[0].TaskArn, 9)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// answer is what this test reads of answers with tasks.
type answer struct {
	Tasks []struct {
		TaskArn, LastStatus, StoppedReason string
		Containers                         []struct{ ExitCode *int }
	}
}

// call calls ECS; only the SDK's own tests need the SDK.
func call(t *testing.T, url, action, body string) (out answer) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+action)
	req.Header.Set(
		"Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/ecs/aws4_request, Signature=none",
	)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v, %s: %s", action, err, resp.Status, text)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// awaitExit waits until a task has stopped.
func awaitExit(t *testing.T, url, arn string, want int) {
	t.Helper()
	task := answer{}.Tasks
	wait.For(t, patience, "the task stops", func() error {
		task = call(t, url, "DescribeTasks", `{"tasks":["`+arn+`"]}`).Tasks
		if task[0].LastStatus != "STOPPED" {
			return fmt.Errorf("it is %s", task[0].LastStatus)
		}
		return nil
	})
	if code := task[0].Containers[0].ExitCode; code == nil || *code != want {
		t.Errorf("%v: %s", code, task[0].StoppedReason)
	}
}
