package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
	"github.com/burstlet/burstlet/test/parts/controlplane"
)

// options say how the demo is run.
type options struct {
	// once ends the demo after the show.
	once bool
	// simulated asks for the simulated backend.
	simulated bool
	// ecs asks for tasks on an ECS, which only answers where no container can run.
	ecs bool
	// programs are those of an ECS that runs containers; empty paths to build them.
	programs cloudPrograms
	// root says that the demo may make namespaces and mounts.
	root bool
	// burstlet is the program to run; empty to build it.
	burstlet string
	// build says to build burstlet first, with the linker flags, at the path given.
	build   bool
	ldflags string
	// onMine asks for the cluster that the user already has, yes for no question, and
	// address is where its API server reaches this machine; empty to find it.
	onMine, yes bool
	address     string
	// myKubeconfig and myKubectl reach that cluster; empty to find them as kubectl is found.
	myKubeconfig, myKubectl string
	// in is where answers are read, and terminal says that somebody gives them.
	in       io.Reader
	terminal bool
}

// demo is one run.
type demo struct {
	options
	*cluster
	out *screen
	// containers says that containers run.
	containers bool
}

func newDemo(opts options, out *screen) *demo {
	namespace := metav1.NamespaceDefault
	if opts.onMine {
		namespace = demoName
	}
	return &demo{
		options: opts, cluster: &cluster{namespace: namespace}, out: out, containers: opts.root && !opts.simulated,
	}
}

// real says that containers run on a host of ours.
func (d *demo) real() bool { return d.containers && !d.ecs }

// run shows everything and takes it down again when it is over, when ctx ends or
// when something fails. The end of force cuts short what the end waits for.
func (d *demo) run(ctx, force context.Context) error {
	d.greet()
	err := d.upAndShow(ctx)
	interrupted := ctx.Err() != nil
	if err != nil && !interrupted {
		d.diagnose(force)
	}
	switch {
	case d.plane != nil:
		d.out.heading("Stopping burstlet, its containers and the control plane")
	case d.leave != nil:
		d.out.heading("Stopping burstlet and removing what the demo made from your cluster")
	}
	downErr := d.down(force)
	switch {
	case err == nil:
		err = d.node.Err() // part of the show: it wrote its last statuses
	case interrupted:
		err = errors.New("interrupted before the end")
	}
	if downErr != nil {
		return errors.Join(err, fmt.Errorf("clean up: %w", downErr))
	}
	switch {
	case d.onMine && d.leave == nil: // nothing was begun
	case d.onMine:
		d.out.heading("Nothing of the demo is left in your cluster, and no process, mount or directory here")
	default:
		d.out.heading("No process, mount or directory is left")
	}
	return err
}

// greet says what kind of demo it is.
func (d *demo) greet() {
	switch {
	case d.real() && d.onMine:
		d.out.write("burstlet: a virtual node in a cluster that you have, whose pods are real containers on a host of " +
			"the demo's,\n" +
			"reached over SSH, on this machine\n")
	case d.real():
		d.out.write(
			"burstlet: a virtual node whose pods are real containers on a host that is reached over SSH, all on this machine\n",
		)
	case d.ecs && d.containers:
		d.out.write("burstlet: a virtual node whose pods are tasks on Amazon ECS with Fargate, as package " +
			"test/fakeaws/ecs plays it:\n" +
			"it answers as AWS does, within AWS's rates, and runs them as containers on this machine. Nothing is billed.\n")
	case d.ecs:
		d.out.write("burstlet: a virtual node whose pods are tasks on Amazon ECS with Fargate, as package " +
			"test/fakeaws/ecs plays it.\n" +
			"NO CONTAINER RUNS and nothing is billed: it answers as AWS does, within AWS's rates. Run the demo as\n" +
			"root to see containers, with kubectl exec, cp and port-forward.\n")
	case d.simulated:
		d.out.write("burstlet: a virtual node on the simulated backend. NO CONTAINER RUNS (--simulated).\n")
	default:
		d.out.write("burstlet: a virtual node on the simulated backend. NO CONTAINER RUNS: containers need\n" +
			"namespaces, mounts and cgroups, which only root may make here. Run the demo as root to see them.\n")
	}
}

// upAndShow does it all but for the end.
func (d *demo) upAndShow(ctx context.Context) error {
	if d.onMine {
		if err := d.meet(ctx); err != nil {
			return err
		}
	}
	if err := d.install(ctx); err != nil {
		return err
	}
	if err := d.upCluster(ctx); err != nil {
		return err
	}
	if err := d.up(ctx); err != nil {
		return err
	}

	ctx, fail := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { d.watch(ctx, fail) })
	defer watching.Wait()
	defer fail(nil)
	err := d.show(ctx)
	if err == nil && !d.once {
		err = d.stay(ctx)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause // a program that ended is why all else failed
	}
	return err
}

// install installs what containers need. On ECS it can do without.
func (d *demo) install(ctx context.Context) error {
	if !d.containers {
		return nil
	}
	err := installPackages(ctx, d.out)
	if err != nil && d.ecs && ctx.Err() == nil {
		d.out.note("NO CONTAINER RUNS: %v", err)
		d.containers = false
		return nil
	}
	return err
}

// upCluster builds what is missing, and starts a control plane or makes what a node
// needs in the user's.
func (d *demo) upCluster(ctx context.Context) error {
	if d.onMine {
		if err := d.prepare(ctx, nil); err != nil {
			return err
		}
		return d.join(ctx)
	}
	var programs controlplane.Binaries
	if err := d.prepare(ctx, &programs); err != nil {
		return err
	}
	d.out.heading("Starting a control plane: etcd, API server, controller manager, scheduler")
	return d.out.during(ctx, nil, func(ctx context.Context, log io.Writer) error {
		return d.startPlane(ctx, programs, log)
	})
}

// up starts everything beside the cluster.
func (d *demo) up(ctx context.Context) error {
	if d.real() {
		d.out.heading("Starting a host with sshd and containerd, in namespaces of its own")
		err := d.out.during(ctx, nil, func(ctx context.Context, _ io.Writer) error { return d.startHost(ctx) })
		if err != nil {
			return err
		}
	}
	if d.ecs {
		d.out.heading("Starting an ECS, with CloudWatch Logs, Secrets Manager and SQS")
		if err := d.upCloud(ctx); err != nil {
			return err
		}
	}
	d.out.heading("Starting burstlet")
	if d.real() {
		d.out.note("Its pods run at %s, where nothing is installed for it.", d.host.Endpoint())
	}
	d.out.command("burstlet", "run", "--config", d.configFile())
	return d.startNode()
}

// upCloud starts an ECS, and builds its programs if need be.
func (d *demo) upCloud(ctx context.Context) error {
	if !d.containers {
		return d.startCloud(ctx, nil)
	}
	programs := d.programs
	return d.out.during(ctx, nil, func(ctx context.Context, _ io.Writer) error {
		if programs.ecs == "" || programs.task == "" {
			var err error
			if programs.ecs, programs.task, err = ecsprocess.Build(ctx, d.dir); err != nil {
				return fmt.Errorf("%w (run the demo in the checkout, or pass --ecs-program and --burstlet-task)", err)
			}
		}
		return d.startCloud(ctx, &programs)
	})
}
