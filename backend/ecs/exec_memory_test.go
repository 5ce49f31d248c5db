package ecs

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// A container whose limit is below what the agent of ECS Exec takes runs, with the agent
// and without.
func TestASmallContainerOutlivesTheAgentOfECSExec(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"exec is on": func(*Config) {}, "exec is off": func(c *Config) { c.NoExec = true },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, stub.Config{}, func(t *testing.T, s *stub.Server, _ backend.Backend) {
				cfg := richConfig(s)
				edit(&cfg)
				b := open(t, cfg)
				pod := podOf("small", "sleep", "3600")
				pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")}
				must(t, b.Pods.Launch(t.Context(), t.Context(), resolved(pod, 0)))
				time.Sleep(10 * time.Minute)
				facts, err := b.Pods.List(t.Context())
				if f := only(t, facts, err); f.Containers[0].State() != backend.Running {
					t.Errorf("%+v", f.Containers[0])
				}
			})
		})
	}
}
