package ecs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// goldenPods are the pods of taskdef's golden files, by the file's name.
func goldenPods(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	files, err := filepath.Glob("taskdef/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no pods: %v", err)
	}
	out := map[string]*corev1.Pod{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		must(t, err)
		pod := &corev1.Pod{}
		must(t, yaml.UnmarshalStrict(b, pod))
		out[filepath.Base(f)] = pod
	}
	return out
}

// The pods of the golden files are taken by a server that is as strict as ECS, and
// run.
func TestRepresentativePodsRun(t *testing.T) {
	for name, pod := range goldenPods(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stub.New(stub.Config{LogGroups: []string{"/burstlet"}})
				cfg := richConfig(s)
				cfg.LogGroup, cfg.EBS = "/burstlet", ecsconfig.EBS{RoleARN: infraRole, Encrypted: true, KMSKeyID: "alias/burst"}
				b := open(t, cfg)
				if b.Check.Check(pod) != nil {
					t.Fatal(b.Check.Check(pod))
				}
				spec := resolved(pod, 0)
				for i := range spec.Containers { // programs that the server knows
					c := &spec.Containers[i]
					c.Container.Command, c.Container.Args = []string{"sh", "-c", "sleep 600"}, nil
					c.Origins.Command, c.Origins.Args = nil, nil
					if c.Init && c.Container.RestartPolicy == nil {
						c.Container.Command[2] = "true"
					}
				}
				must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
				time.Sleep(3 * time.Minute)
				facts, err := b.Pods.List(t.Context())
				must(t, err)
				if len(facts) != 1 || !facts[0].Live {
					t.Fatalf("%+v", facts)
				}
				for _, c := range facts[0].Containers {
					if isInit := c.Name == "first" || c.Name == "second" || strings.HasPrefix(c.Name, "migrate") ||
						c.Name == "warm"; !isInit && c.State() != backend.Running {
						t.Errorf("%s: %+v", c.Name, c)
					}
				}
				text := fmt.Sprintf("%+v", s.Definitions()) + fmt.Sprintf("%+v", s.TaskInfos())
				if strings.Contains(text, canary) {
					t.Error("the canary is in a definition or a task")
				}
			})
		})
	}
}
