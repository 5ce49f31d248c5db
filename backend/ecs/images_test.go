package ecs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// noImages is a registry without images.
type noImages struct{}

func (noImages) Config(context.Context, string, string, []backend.Credential) (taskdef.ImageConfig, error) {
	return taskdef.ImageConfig{}, errors.New("not found")
}

// A launch looks its images up before anything is spent.
func TestAMissingImageCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(stub.Config{LogGroups: []string{"/burstlet"}})
		cfg := wholeConfig(s, false)
		cfg.Images, cfg.EventQueueURL = noImages{}, ""
		pod := podOf("a")
		pod.Spec.Containers[0].Image = "registry.example/missing:1"
		err := open(t, cfg).Pods.Launch(t.Context(), t.Context(), specOf(pod, 0))
		if !backend.IsUnmade(err) || !errors.As(err, new(*backend.ContainerError)) {
			t.Errorf("%v", err)
		}
		if calls := s.Calls(); len(calls) != 0 {
			t.Errorf("calls %v", calls)
		}
	})
}
