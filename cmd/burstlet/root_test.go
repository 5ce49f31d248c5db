package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// execute runs the command line and returns its standard output.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newRootCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestVersion(t *testing.T) {
	text, err := execute(t, "version")
	if err != nil {
		t.Fatal(err)
	}
	data, err := execute(t, "version", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(data), &got); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got["kubernetes"], "v1.") || strings.Contains(got["kubernetes"], "+") {
		t.Errorf("kubernetes %q, want v1.x.y", got["kubernetes"])
	}
	want := map[string]string{
		"version": "devel", "kubernetes": got["kubernetes"], "go": runtime.Version(),
		"platform": runtime.GOOS + "/" + runtime.GOARCH,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	for _, value := range want {
		if !strings.Contains(text, value) {
			t.Errorf("text %q lacks %s", text, value)
		}
	}
}

func TestSettingsAreFlags(t *testing.T) {
	cmd := newRunCommand()
	if err := cmd.ParseFlags([]string{
		"--kubelet-api-self-signed", "--cluster-dns=10.0.0.1,10.0.0.2", "--node-name=",
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"kubelet-api-self-signed": "true", "cluster-dns": "10.0.0.1,10.0.0.2", "node-name": ""}
	if diff := cmp.Diff(want, givenSettings(cmd.Flags())); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
	help := cmd.Flags().FlagUsages()
	for _, s := range config.Settings() {
		if !strings.Contains(help, "--"+s.Flag+" ") || !strings.Contains(help, "($"+s.Env()+")") {
			t.Errorf("help lacks --%s or $%s", s.Flag, s.Env())
		}
	}
}

// The help of a command lists the settings that concern it; what "burstlet run" takes may
// be given all the same.
func TestHelpListsTheSettingsOfACommand(t *testing.T) {
	for command, tc := range map[string]struct{ listed, hidden []string }{
		"run": {listed: []string{"--shutdown-mode", "--kubeconfig", "--pods-api-server"}},
		"doctor": {
			listed: []string{
				"--backend-only", "--kubeconfig", "--kubelet-api-port", "--cri-endpoint", "--leader-elect", "--log-level",
			},
			hidden: []string{"--shutdown-mode", "--healthz-port", "--pods-api-server", "--cluster-dns"},
		},
		"explain": {
			listed: []string{"--filename", "--backend", "--cri-endpoint", "--ecs-cluster", "--cluster-dns"},
			hidden: []string{"--kubeconfig", "--kubelet-api-port", "--shutdown-mode", "--log-level"},
		},
	} {
		help, err := execute(t, command, "--help")
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range tc.listed {
			if !strings.Contains(help, flag+" ") {
				t.Errorf("%s: the help lacks %s", command, flag)
			}
		}
		for _, flag := range tc.hidden {
			if strings.Contains(help, flag+" ") {
				t.Errorf("%s: the help lists %s", command, flag)
			}
		}
		if !strings.Contains(help, "ssh://user@host") {
			t.Errorf("%s: nothing says that a host may be reached over SSH", command)
		}
	}
	if out, err := execute(t, "doctor", "--backend-only", "--shutdown-mode", "leave"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestCommandErrors(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{
			[]string{"run", "--kubelet-api-port", "x"},
			`invalid argument "x" for "--kubelet-api-port" flag: "x" is not a whole number`,
		},
		{[]string{"run", "--colour", "x"}, "unknown flag: --colour"},
		{
			[]string{"run", "--config", "/absent/burstlet.yaml"},
			"read configuration: open /absent/burstlet.yaml: no such file or directory",
		},
		{
			[]string{"run", "--log-level", "loud"},
			`check configuration: logging.level: Unsupported value: "loud": supported values: "error", "warn", "info", "debug", "trace"`,
		},
		{[]string{"version", "-o", "xml"}, `flag --output: "xml" is not json`},
		{[]string{"start"}, `unknown command "start" for "burstlet"`},
	} {
		if _, err := execute(t, tc.args...); err == nil || err.Error() != tc.want {
			t.Errorf("burstlet %s: error %v, want %s", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}
