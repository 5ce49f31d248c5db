package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/logs"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
	"github.com/burstlet/burstlet/test/parts/images"
	"github.com/burstlet/burstlet/test/parts/registry"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
)

const (
	// toolsRef is busybox with kubectl and agnhost.
	toolsRef = "registry.burstlet.test/tools:1"
	// privateRef is busybox in a registry that wants credentials, the only place where
	// it is.
	privateDomain = "private.burstlet.test"
	privateRef    = privateDomain + "/hidden/app:1"
	privateUser   = "puller"
	// tasksAtOnce bounds the rows that run at once: each has several containers.
	tasksAtOnce = 5
)

// staying are rows whose pods are there when burstlet is killed in the end. Every task keeps
// the machine busy: its health checks and sessions start processes all the time.
var staying = []string{
	"statefulset", "init containers and sidecar", "files", "probes of all kinds", "several containers", "hostAliases",
	"private image", "users and groups", "environment-later", "token",
}

// ecsPrograms are test/cmd/ecs and burstlet's in-task binary, built once.
var ecsPrograms struct {
	once      sync.Once
	ecs, task string
	err       error
}

// cloud is an ECS that runs containers, a process of its own, with a control plane
// that its tasks reach and a node of burstlet.
type cloud struct {
	*ecsprocess.Process
	ecs.Remote
	c *cluster
	n *node
	// password opens the private registry.
	password string
}

// newCloud starts all of it. More are further members of backend.ecs.
func newCloud(t *testing.T, name string, more ...string) *cloud {
	t.Helper()
	containerd.Need(t, "an ECS with containers", ecsprocess.Missing())
	s := &cloud{password: randomText(t)}
	all, tasks := s.serveImages(t)
	log := &logs.Buffer{}
	log.ShowAtFailure(t, "ECS")
	process, err := ecsprocess.Start(t.Context(), ecsprocess.Config{
		Program: ecsPrograms.ecs, Images: all, Registries: map[string]int{privateDomain: tasks.Port},
		LogGroups: []string{ecsprocess.LogGroup}, Queues: []string{ecsprocess.Queue}, Log: log,
		Args: []string{"--provision", "300ms", "--deprovision", "1s", "--bucket", ecsprocess.Bucket},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(context.Background()); err != nil { // it is bounded by itself
			t.Error(err)
		}
	})
	s.Process, s.Remote = process, ecs.Remote{URL: process.URL}
	s.c = cloudCluster(t, process.Gateway.String())
	s.n = newNode(t, s.c, name, "", ecsprocess.Access()...)
	s.n.edit("backend:\n", "")
	s.n.configure(fmt.Sprintf("pods: {apiServer: %q}\nbackend: %s\n", strings.TrimPrefix(s.c.URL(), "https://"),
		// this ECS lists what it has
		process.Section(append([]string{tasks.Mirrors(), "settle: 20s", "payloadBucket: " + ecsprocess.Bucket}, more...)...)))
	s.n.run()
	return s
}

// cloudCluster is a control plane of its own at an address that tasks reach.
func cloudCluster(t *testing.T, address string) *cluster {
	t.Helper()
	cp := cptest.New(t, controlplane.Config{BindAddress: address})
	return &cluster{ControlPlane: cp, client: cptest.Client(t, cp.AdminConfig())}
}

// serveImages returns what tasks have from the start, and the registry of all there
// is, for burstlet's look-ups and for what tasks pull.
func (s *cloud) serveImages(t *testing.T) (imported map[string]v1.Image, served *ecsprocess.Registry) {
	t.Helper()
	ecsPrograms.once.Do(func() {
		ecsPrograms.ecs, ecsPrograms.task, ecsPrograms.err = ecsprocess.Build(context.Background(), scratch)
	})
	if ecsPrograms.err != nil {
		t.Fatal(ecsPrograms.err)
	}
	task, err := images.Task(ecsPrograms.task)
	if err != nil {
		t.Fatal(err)
	}
	all, err := images.All()
	if err != nil {
		t.Fatal(err)
	}
	all[images.TaskRef], all[toolsRef] = task, toolsImage(t)
	imported = map[string]v1.Image{images.TaskRef: task, toolsRef: all[toolsRef]}
	all[privateRef] = all[images.BusyboxRef]
	served, err = ecsprocess.ServeImages("0.0.0.0", all,
		registry.Private{Prefix: "hidden/", User: privateUser, Password: s.password})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := served.Close(); err != nil {
			t.Error(err)
		}
	})
	return imported, served
}

// toolsImage is busybox with an API client and with servers of the conformance
// tests.
func toolsImage(t *testing.T) v1.Image {
	t.Helper()
	plane, err := controlplane.FindBinaries(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	files, err := images.Programs(plane.Kubectl, cptest.Tool(t, binaries.Agnhost))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := images.Layer(files...)
	if err != nil {
		t.Fatal(err)
	}
	image, err := images.Derive(v1.Config{Cmd: []string{"sh"}}, layer)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// taskLife is a row being run on an ECS with containers, and that ECS, seen past
// burstlet.
type taskLife struct {
	*life
	s *cloud
}

// TestWholePodsOnECS: pods with all that Fargate can give them, as real containers:
// what users see of them is what they see on a kubelet.
func TestWholePodsOnECS(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, worker, 300*time.Second)
	s := newCloud(t, "tasks", "refresh: 5s", "stats: sessions")
	rows := slices.Concat(taskWorkloads, taskPods, taskAccess, rowsOfOthers())
	areRows(t, staying, rows)
	slots := make(chan struct{}, room(tasksAtOnce))
	together(t, rows, row[*taskLife].title, func(t *testing.T, r row[*taskLife]) {
		slots <- struct{}{}
		defer func() { <-slots }()
		s.lives(t)
		l := s.life(t, "task-"+strings.ToLower(strings.ReplaceAll(r.name, " ", "-")))
		r.run(l)
		if !allStay && !slices.Contains(staying, r.name) {
			l.must(s.c.client.CoreV1().Namespaces().Delete(t.Context(), l.namespace, metav1.DeleteOptions{}))
		}
	})
	s.lives(t)
	t.Run("restarted", func(t *testing.T) { adopts(t, s.c, s.n) })
	s.endsClean(t)
}

// lives ends a test that would wait in vain: of an ECS that has ended.
func (s *cloud) lives(t *testing.T) {
	t.Helper()
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
}

// life is a row on the cloud.
func (s *cloud) life(t *testing.T, namespace string) *taskLife {
	t.Helper()
	l := &life{T: t, c: s.c, n: s.n, namespace: s.c.namespace(t, namespace)}
	l.remote.mounts = true
	return &taskLife{l, s}
}

// rowsOfOthers are those of other kinds of remote that tasks can run.
func rowsOfOthers() []row[*taskLife] {
	var rows []row[*taskLife]
	names := []string{
		"environment", "environment-later", "configmap-update", "volume-later", "labels-update", "token",
		"readiness-falls", "liveness-exec", "sidecar-job", "pull-secret-missing",
	}
	for _, b := range behaviours() {
		if slices.Contains(names, b.name) {
			rows = append(rows, row[*taskLife]{b.name, func(l *taskLife) { b.run(l.life) }})
		}
	}
	for _, v := range verbs {
		// A task takes no containers while it runs, and its input cannot be reached.
		if v.name != "debug" && v.name != "attach with input" {
			rows = append(rows, row[*taskLife]{"kubectl " + v.name, func(l *taskLife) { v.run(l.life) }})
		}
	}
	for _, scenario := range scenarios {
		scenario.token = true
		rows = append(rows, row[*taskLife]{"scenario " + scenario.name, func(l *taskLife) {
			scenario.run(l.T, l.c, l.n, l.remote, l.namespace)
		}})
	}
	return rows
}

// endsClean deletes all pods, after which ECS has nothing of them.
func (s *cloud) endsClean(t *testing.T) {
	t.Helper()
	s.deleteAll(t)
	wait.For(t, patience, "nothing left of the pods", func() error {
		report, err := s.Report(t.Context())
		if err != nil {
			return err
		}
		for _, task := range report.Tasks {
			if task.LastStatus != "STOPPED" {
				return fmt.Errorf("task %s of pod %s is %s", task.ARN, task.Tags["burstlet/pod"], task.LastStatus)
			}
		}
		for _, secret := range report.Secrets {
			if !secret.Deleted && strings.Contains(secret.Name, "/pod/") {
				return fmt.Errorf("secret %s is left", secret.Name)
			}
		}
		for _, object := range report.Objects {
			return fmt.Errorf("object %s is left", object.Key)
		}
		return nil
	})
}
