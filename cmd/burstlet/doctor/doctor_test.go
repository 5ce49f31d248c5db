package doctor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri/fakecri"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// runDoctor diagnoses the nodes of a configuration.
func runDoctor(t *testing.T, yaml string, o Options) (string, error) {
	t.Helper()
	file := saved(t, "burstlet.yaml", "apiVersion: burstlet.dev/v1alpha1\nkind: BurstletConfiguration\n"+yaml)
	cfg, err := config.Load(config.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = Run(t.Context(), &out, cfg.Each(), o)
	return strings.Join(strings.Fields(out.String()), " "), err
}

func saved(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// doctor diagnoses a configuration of nodes, and asks no cluster.
func doctor(t *testing.T, backends ...string) (string, error) {
	t.Helper()
	text := "nodes:\n"
	for i, b := range backends {
		text += fmt.Sprintf("- node: {name: n%d}\n  backend: %s\n", i, b)
	}
	return runDoctor(t, text, Options{BackendOnly: true})
}

func TestDoctorLooksAtEachNode(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "r.sock")
	stop, err := fakecri.New().Serve(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	key := filepath.Join(t.TempDir(), "absent")
	out, err := doctor(t,
		"{type: sim, sim: {}}",
		"{type: cri, cri: {endpoint: unix://"+socket+"}}",
		"{type: cri, cri: {endpoint: unix:///absent/r.sock}}",
		"{type: cri, cri: {endpoint: ssh://me@192.0.2.1, ssh: {keyFiles: ["+key+"], insecureIgnoreHostKey: true}}}",
		"{type: sim, sim: {socket: unix:///absent/s}}",
	)
	if err == nil || !strings.HasSuffix(err.Error(), "checks failed") {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{
		"node n0 (sim) warn backend is simulated: no container runs",
		"node n1 (cri unix://" + socket + ") ",
		" ok runtime containerd 1.6.20 ",
		"node n2 (cri unix:///absent/r.sock) ",
		" FAIL runtime socket /absent/r.sock: connect: no such file or directory: is containerd installed and running",
		"node n3 (cri ssh://me@192.0.2.1) ",
		" FAIL keys and known hosts 192.0.2.1:22: ssh.keyFiles " + key + ": no such file or directory",
		" FAIL burstlet sim set up the sim backend at unix:///absent/s: ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
}

func TestDoctorIsContentWithASimulation(t *testing.T) {
	if out, err := doctor(t, "{type: sim, sim: {}}"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The whole way from the configuration to AWS, as the SDK finds credentials there.
func TestDoctorLooksAtAWS(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-2b71")
	t.Setenv("AWS_SESSION_TOKEN", "canary-99ac")
	s := stub.New(stub.Config{Region: "eu-central-1", Cluster: "burst"})
	url, stop, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	look := func(cluster string) (string, error) {
		return runDoctor(
			t,
			"node: {name: n0, capacity: {cpu: 100, memory: 400Gi}}\nbackend: {type: ecs, ecs: {region: eu-central-1, cluster: "+
				cluster+", subnets: [subnet-1], endpoint: "+url+"}}",
			Options{BackendOnly: true},
		)
	}
	out, err := look("burst")
	if err != nil ||
		!strings.Contains(
			out,
			"node n0 (ecs burst in eu-central-1) ok AWS credentials found by EnvConfigCredentials ok AWS caller arn:aws:sts::",
		) {
		t.Errorf("%v: %s", err, out)
	}
	if strings.Contains(out, "canary") || strings.Contains(out, "AKID") {
		t.Errorf("a secret is printed: %s", out)
	}
	s.Deny(stub.Denial{Action: "ecs:StopTask"})
	out, err = look("burst")
	if err == nil || err.Error() != "one check failed" ||
		!strings.Contains(
			out, "FAIL AWS permission arn:aws:sts::123456789012:assumed-role/burstlet/caller may not ecs:StopTask on ",
		) ||
		!strings.Contains(out, "deploy/aws/controller-policy.json grants it (statement Tasks)") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err = look("none"); err == nil || !strings.Contains(out, "FAIL ECS cluster there is no none in eu-central-1") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestFindingsAreLines(t *testing.T) {
	got := findingText(backend.Bad("x", "a\nb\tc", "do"))
	if got != "a; b c: do" {
		t.Errorf("%q", got)
	}
}
