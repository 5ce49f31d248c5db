package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/parts/remotehost/containerd"
	"github.com/burstlet/burstlet/test/world/basecluster"
)

// world is the one cluster of all tests, and the ECS that it reaches. Each release has
// a namespace of its own in it, and one for the pods that use it.
type world struct {
	c      *basecluster.Cluster
	cloud  *ecsprocess.Process
	mirror *ecsprocess.Registry
	helm   string
}

// TestInOneCluster starts the cluster. What happens in it happens at the same time; then
// nothing of the releases is left, and the kubelet and its host leave nothing either.
func TestInOneCluster(t *testing.T) {
	lane.From(t, lane.Gate)
	settings := readSettings(t)
	var cgroup string
	t.Run("cluster", func(t *testing.T) {
		w := newWorld(t)
		cgroup = w.c.Host.Cgroup()
		before := objects(t, w.c)
		t.Run("together", func(t *testing.T) {
			for _, tt := range []struct {
				name string
				test func(*testing.T, *world)
			}{ // the longest first: they wait for each other where few may run at a time
				{"SSH", installSSH},
				{"certificates", installWithCertificates},
				{"ECS", installECS},
				{"pods use the cluster", podsUseTheCluster},
				{"a pod's life", podLife},
			} {
				t.Run(tt.name, func(t *testing.T) {
					t.Parallel()
					tt.test(t, w)
				})
			}
		})
		nothingOf(t, w, before)
		kubeletEnds(t, w.c)
		if after := readSettings(t); after != settings {
			t.Errorf("kernel settings of the machine: %s, were %s", after, settings)
		}
	})
	if cgroup == "" {
		return // skipped or failed
	}
	// Version 1 has a hierarchy for each controller, version 2 has one.
	for _, pattern := range []string{"/sys/fs/cgroup/" + cgroup, "/sys/fs/cgroup/*/" + cgroup} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			t.Errorf("cgroups are left: %v, %v", left, err)
		}
	}
}

// newWorld starts the ECS, for the cluster's certificate has its address, and the
// cluster, which has burstlet's image and knows what its pods use.
func newWorld(t *testing.T) *world {
	t.Helper()
	containerd.Need(t, "an ECS with containers", ecsprocess.Missing())
	w := &world{helm: helmProgram(t)}
	archive := imageArchive(t)
	w.cloud, w.mirror = newCloud(t, archive)
	w.c = basecluster.ForTest(t, basecluster.Config{
		Hosts: []string{w.cloud.Gateway.String()},
		ControllerManagerArgs: []string{
			// By default an autoscaler looks each 15 s, and at a pod when it is minutes old.
			"--horizontal-pod-autoscaler-sync-period=3s",
			"--horizontal-pod-autoscaler-cpu-initialization-period=5s",
			"--horizontal-pod-autoscaler-initial-readiness-delay=5s",
		},
	})
	w.c.ImportArchive(t, archive)
	w.c.ServeMetrics(t)
	return w
}

// nothingOf compares all objects of the cluster with those that were there before the
// tests. The namespaces were made for the releases, and Helm leaves them.
func nothingOf(t *testing.T, w *world, before map[string]bool) {
	t.Helper()
	// What the releases' own pods leave ends a moment after Helm.
	basecluster.Await(t, "nothing to be left", func(context.Context) error {
		left := slices.DeleteFunc(added(before, objects(t, w.c)), isOurs)
		if len(left) > 0 {
			return fmt.Errorf("left:\n%s", strings.Join(left, "\n"))
		}
		return nil
	})
}

// isOurs says that an object is a namespace of a test, what the cluster puts into each,
// or of the workload there: its Deployment waits for the node to come back.
func isOurs(name string) bool {
	kind, path, _ := strings.Cut(name, " ")
	namespace, object, _ := strings.Cut(path, "/")
	if kind == "namespaces" {
		namespace, object = object, ""
	}
	switch {
	case strings.HasPrefix(namespace, workPrefix) && strings.HasPrefix(object, "work"):
		return true
	case strings.HasPrefix(namespace, workPrefix), strings.HasPrefix(namespace, releasePrefix):
		return slices.Contains(
			[]string{"namespaces ", "serviceaccounts default", "configmaps kube-root-ca.crt"}, kind+" "+object,
		)
	}
	return false
}

// kubeletEnds: the kubelet goes when it is told to, with its way to the machine.
func kubeletEnds(t *testing.T, c *basecluster.Cluster) {
	t.Helper()
	k := c.Kubelet
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", k.Pid()))
	if err != nil || filepath.Base(exe) != "kubelet" {
		t.Errorf("process %d is %q, %v", k.Pid(), exe, err)
	}
	if !linked(t, c.Host) {
		t.Error("the host has no link")
	}
	ctx, cancel := context.WithTimeout(t.Context(), helmTimeout)
	defer cancel()
	if err := k.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-k.Done():
	default:
		t.Error("Stop returned before the kubelet was gone")
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", k.Pid())); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("process of the kubelet: %v", err)
	}
	if linked(t, c.Host) {
		t.Error("the link is left")
	}
}
