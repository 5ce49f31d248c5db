package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
	"github.com/burstlet/burstlet/test/parts/images"
)

// cloud is an ECS: a process that runs tasks as containers, or a server in the
// demo's own that only answers.
type cloud struct {
	ecs.Remote
	queue string
	// images is where burstlet looks images up.
	images *ecsprocess.Registry
	log    *os.File
	stop   func(context.Context) error
	// ended is closed when the process has ended; nil where there is none.
	ended <-chan struct{}
}

// What the node is told of its cloud.
const (
	logGroup   = "/burstlet/demo"
	queue      = "burstlet-events"
	roleARN    = "arn:aws:iam::123456789012:role/"
	cloudClick = 2 * time.Second
)

// startCloud starts an ECS with AWS's rates and delays that do not bore, which runs
// containers by the programs given, or only answers where there are none.
func (c *cluster) startCloud(ctx context.Context, programs *cloudPrograms) error {
	c.cloud = &cloud{}
	start := c.cloud.answer
	if programs != nil {
		start = func() error { return c.cloud.run(ctx, *programs, filepath.Join(c.dir, "ecs.log")) }
	}
	if err := start(); err != nil {
		return fmt.Errorf("start the cloud: %w", err)
	}
	return nil
}

// cloudPrograms are the paths of test/cmd/ecs and of burstlet's in-task binary.
type cloudPrograms struct{ ecs, task string }

// answer starts a server in this process. Nothing of an image is needed but what it
// is by default.
func (c *cloud) answer() error {
	busybox, err := ecsprocess.Unpacked(v1.Config{Cmd: []string{"sh"}})
	if err != nil {
		return err
	}
	if c.images, err = ecsprocess.ServeImages(loopback, map[string]v1.Image{images.BusyboxRef: busybox}); err != nil {
		return err
	}
	server := ecs.New(ecs.Config{
		Throttles: true, LogGroups: []string{logGroup}, Queues: []string{queue},
		Kindness: ecs.Kindness{LogsAtOnce: true, HealthAtOnce: true}, // nobody wants to wait in a demo
		Delays: ecs.Delays{
			Provision: cloudClick, Pull: cloudClick, Deprovision: cloudClick, Visible: time.Second, Ingest: time.Second,
		},
	})
	url, stop, err := server.Start()
	if err != nil {
		return err
	}
	c.Remote, c.queue = ecs.Remote{URL: url}, server.QueueURL(queue)
	c.stop = func(context.Context) error {
		stop()
		return nil
	}
	return nil
}

// run starts a process that runs containers.
func (c *cloud) run(ctx context.Context, programs cloudPrograms, logPath string) error {
	all, err := images.All()
	if err != nil {
		return err
	}
	if all[images.TaskRef], err = images.Task(programs.task); err != nil {
		return err
	}
	if c.images, err = ecsprocess.ServeImages(loopback, all); err != nil {
		return err
	}
	if c.log, err = os.Create(logPath); err != nil {
		return fmt.Errorf("make its log: %w", err)
	}
	process, err := ecsprocess.Start(ctx, ecsprocess.Config{
		Program: programs.ecs, Images: all, LogGroups: []string{logGroup}, Queues: []string{queue}, Log: c.log,
		Args: []string{"--throttles", "--provision", time.Second.String()},
	})
	if err != nil {
		return err
	}
	c.Remote, c.queue, c.stop, c.ended = ecs.Remote{URL: process.URL}, process.QueueURL, process.Stop, process.Failed()
	return nil
}

// wait returns when the process ended by itself, or nil when ctx ends before.
func (c *cloud) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.ended:
		return errors.New("the cloud ended by itself")
	}
}

// down ends what was started of it.
func (c *cloud) down(ctx context.Context) error {
	var errs []error
	if c.stop != nil {
		errs = append(errs, c.stop(ctx))
	}
	if c.images != nil {
		errs = append(errs, c.images.Close())
	}
	if c.log != nil {
		errs = append(errs, c.log.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop the cloud: %w", err)
	}
	return nil
}

// config is what burstlet is told of it.
func (c *cloud) config() *cloudConfig {
	return &cloudConfig{endpoint: c.URL, queue: c.queue, images: c.images.URL()}
}

// live are the tasks that are not STOPPED.
func live(report ecs.Report) []ecs.TaskInfo {
	var live []ecs.TaskInfo
	for _, t := range report.Tasks {
		if t.LastStatus != "STOPPED" {
			live = append(live, t)
		}
	}
	return live
}

// showTasks asks ECS itself: a task for each pod, of one definition, and what they
// cost.
func (d *demo) showTasks(ctx context.Context) error {
	report, err := d.cloud.Report(ctx)
	if err != nil {
		return err
	}
	tasks := live(report)
	if len(tasks) != helloPods {
		return fmt.Errorf("ECS runs %d tasks, not %d", len(tasks), helloPods)
	}
	var table strings.Builder
	tabs := tabwriter.NewWriter(&table, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(tabs, "TASK\tPOD\tDEFINITION\tCPU\tMEMORY\tSTATUS")
	families := map[string]bool{}
	for _, t := range tasks {
		families[t.Family] = true
		id := path.Base(t.ARN)
		_, _ = fmt.Fprintf(tabs, "%s…\t%s\t%s…:%d\t%v\t%v MiB\t%s\n",
			id[:8], t.Tags["burstlet/pod"], t.Family[:min(len(t.Family), 20)], t.Revision, t.CPU, t.MemoryMiB, t.LastStatus)
	}
	if err := tabs.Flush(); err != nil {
		return fmt.Errorf("print tasks: %w", err)
	}
	d.out.text("\n" + table.String())
	if len(families) != 1 {
		return fmt.Errorf("the pods of one Deployment have %d task definitions", len(families))
	}
	d.out.note("One task definition serves them all. On AWS they would cost $%.3f an hour.", report.Cost.PerHour)
	return nil
}

// showNoTasks wants none left.
func (d *demo) showNoTasks(ctx context.Context) error {
	report, err := d.cloud.Report(ctx)
	if err != nil {
		return err
	}
	if n := len(live(report)); n > 0 {
		return fmt.Errorf("ECS still runs %d tasks", n)
	}
	for _, s := range report.Secrets {
		if !s.Deleted && strings.Contains(s.Name, "/pod/") {
			return fmt.Errorf("the secret %s of a pod is left", s.Name)
		}
	}
	d.out.note("ECS has no task left, and nothing is billed any more.")
	return nil
}
