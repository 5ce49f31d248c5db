package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
	"github.com/burstlet/burstlet/test/parts/images"
)

// tasks is an ECS that runs containers, and the registry in which burstlet looks
// images up.
type tasks struct {
	*ecsprocess.Process
	log      *os.File
	registry *ecsprocess.Registry
}

func startTasks(ctx context.Context, cfg ClusterConfig, all map[string]v1.Image) (remote, error) {
	all = maps.Clone(all)
	var err error
	if all[images.TaskRef], err = images.Task(cfg.Task); err != nil {
		return nil, err
	}
	t := &tasks{}
	if t.log, err = os.Create(filepath.Join(cfg.Dir, "ecs.log")); err != nil {
		return nil, fmt.Errorf("make the log of ECS: %w", err)
	}
	// Tasks have the images: only burstlet asks.
	if t.registry, err = ecsprocess.ServeImages("127.0.0.1", all); err == nil {
		t.Process, err = ecsprocess.Start(ctx, ecsprocess.Config{
			Program: cfg.ECS, Images: all, Log: t.log,
			LogGroups: []string{ecsprocess.LogGroup}, Queues: []string{ecsprocess.Queue},
			// Fargate takes longer to give an address back. Meanwhile the ends of
			// containers, and what they said, are seen.
			Args: []string{"--deprovision", "2s"},
		})
	}
	if err != nil {
		return nil, errors.Join(err, t.stop(context.WithoutCancel(ctx)))
	}
	return t, nil
}

func (t *tasks) gateway() string { return t.Gateway.String() }

func (t *tasks) section() string { return t.Section("refresh: 10s", t.registry.Mirrors()) }

// node says how much of the account the node may use: as a machine of its own
// would offer, for tests that ask what is allocatable.
func (t *tasks) node() string { return ", capacity: {cpu: 16, memory: 64Gi, pods: 110}" }

func (t *tasks) env() []string { return ecsprocess.Access() }

func (t *tasks) cut() (restore func(), err error) {
	return nil, errors.New("there is no SSH connection to an ECS")
}

func (t *tasks) stop(ctx context.Context) error {
	var errs []error
	if t.Process != nil {
		errs = append(errs, t.Stop(ctx))
	}
	if t.registry != nil {
		errs = append(errs, t.registry.Close())
	}
	return errors.Join(append(errs, t.log.Close())...)
}
