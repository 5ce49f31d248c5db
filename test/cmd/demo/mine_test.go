package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/launch"
	"github.com/burstlet/burstlet/test/world/basecluster"
)

// TestOnMyCluster runs the demo on a cluster that it did not start, with a kubelet's
// node in it: as it should be, where the API server cannot call burstlet, where
// burstlet ends, and when it is interrupted. Nothing may be left in the cluster.
func TestOnMyCluster(t *testing.T) {
	lane.From(t, lane.Gate)
	requireContainers(t)
	t.Parallel()
	c := basecluster.ForTest(t, basecluster.Config{})
	program := launch.Program(t)
	before := objects(t, c)
	if len(before) == 0 {
		t.Fatal("the cluster is empty")
	}
	for _, tc := range []struct {
		name    string
		opts    options
		until   string
		wantErr string
		want    []string
		without []string
	}{
		{
			name: "whole", opts: options{root: true, once: true},
			want: []string{
				"context   burstlet-test", "server    " + c.URL(), "] hello from hello-", "-- cat /etc/greeting/text",
				"Forwarding from", "Nothing of the demo is left in your cluster",
			},
			without: []string{"Building a control plane", "cannot call burstlet"},
		},
		{
			name: "not reached", opts: options{root: true, once: true, address: "192.0.2.1"},
			want: []string{
				"cannot call burstlet at 192.0.2.1", "logs, exec and port-forward cannot work", " F hello from hello-",
				"Nothing of the demo is left",
			},
			without: []string{"$ kubectl logs", "$ kubectl exec", "$ kubectl port-forward"},
		},
		{
			name: "burstlet ends", opts: options{simulated: true, once: true, burstlet: ending(t, program)},
			wantErr: "burstlet ended by itself: exit status 3",
			want:    []string{"Something went wrong", "Nothing of the demo is left"},
		},
		{
			name: "interrupted", opts: options{root: true, yes: true}, until: "--replicas=5",
			wantErr: "interrupted", want: []string{"Nothing of the demo is left"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.opts.onMine, tc.opts.myKubeconfig, tc.opts.myKubectl = true, c.KubeconfigPath(), c.Kubectl()
			if tc.opts.burstlet == "" {
				tc.opts.burstlet = program
			}
			d, output, err := start(t, tc.opts, tc.until)
			expectError(t, err, tc.wantErr)
			for _, want := range tc.want {
				if !strings.Contains(output, want) {
					t.Errorf("%q is not in the output", want)
				}
			}
			for _, other := range tc.without {
				if strings.Contains(output, other) {
					t.Errorf("%q is in the output", other)
				}
			}
			if _, err := os.Stat(d.dir); d.dir == "" || !os.IsNotExist(err) {
				t.Errorf("directory %s is left: %v", d.dir, err)
			}
			if diff := cmp.Diff(before, objects(t, c)); diff != "" {
				t.Errorf("objects in the cluster, before -, after +:\n%s", diff)
			}
			t.Log(output)
		})
	}
}

// ending is a burstlet that cannot run, but is whole in all else.
func ending(t *testing.T, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "burstlet")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" != run ] || exit 3\nexec %s \"$@\"\n", program)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// objects are all that the cluster holds, by resource and name, with their UIDs and
// what tells that they were changed by somebody. Those that other nodes and the
// control plane make over time are left out: Events of others.
func objects(t *testing.T, c *basecluster.Cluster) map[string]string {
	t.Helper()
	client, err := dynamic.NewForConfig(c.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, resource := range listable(t, c.Client) {
		list, err := client.Resource(resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("list %s: %v", resource, err)
		}
		for _, o := range list.Items {
			text := fmt.Sprintf("%s generation %d labels %v", o.GetUID(), o.GetGeneration(), o.GetLabels())
			if resource.Resource == "events" {
				about, _ := o.Object["involvedObject"].(map[string]any)
				if about == nil {
					about, _ = o.Object["regarding"].(map[string]any)
				}
				if about["name"] != nodeName && o.GetNamespace() != demoName {
					continue
				}
			}
			found[strings.Join([]string{resource.Group, resource.Resource, o.GetNamespace(), o.GetName()}, "/")] = text
		}
	}
	return found
}

// listable are all resources that can be listed.
func listable(t *testing.T, client kubernetes.Interface) []schema.GroupVersionResource {
	t.Helper()
	lists, err := client.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	found := map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && r.Name != "componentstatuses" {
				found[version.WithResource(r.Name)] = true
			}
		}
	}
	return slices.Collect(maps.Keys(found))
}
