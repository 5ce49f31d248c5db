package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/test/parts/images"
)

// TestRender lets burstlet itself read what was rendered.
func TestRender(t *testing.T) {
	tests := map[string]struct {
		host     *hostConfig
		cloud    *cloudConfig
		address  string
		election string
		want     config.Backend
	}{
		"on a cluster of the user's": {
			address: "192.0.2.7", election: "burstlet-demo",
			want: config.Backend{Type: "sim", Sim: &config.Sim{Granularity: "container"}},
		},
		"simulated": {
			address: "127.0.0.1",
			want:    config.Backend{Type: "sim", Sim: &config.Sim{Granularity: "container"}},
		},
		"ECS": {
			address: "127.0.0.1",
			cloud: &cloudConfig{
				endpoint: "http://127.0.0.1:4566", queue: "http://127.0.0.1:4566/123456789012/q", images: "http://127.0.0.1:5000",
			},
			want: config.Backend{Type: "ecs", ECS: &config.ECS{
				Region: "us-east-1", Cluster: "default", Subnets: []string{"subnet-a", "subnet-b"},
				ExecutionRoleARN: roleARN + "execution", TaskRoleARN: roleARN + "task", TaskImage: images.TaskRef,
				LogGroup: logGroup, CPUArchitecture: "X86_64",
				EventQueueURL: "http://127.0.0.1:4566/123456789012/q", Endpoint: "http://127.0.0.1:4566",
				RegistryMirrors: map[string]string{"registry.burstlet.test": "http://127.0.0.1:5000"},
			}},
		},
		"a host over SSH": {
			address: "127.0.0.1",
			host:    &hostConfig{endpoint: "ssh://root@127.0.0.1:2222", key: "/host/key", knownHosts: "/host/known_hosts"},
			want: config.Backend{Type: "cri", CRI: &config.CRI{
				Endpoint: "ssh://root@127.0.0.1:2222",
				SSH: &config.SSH{
					KeyFiles: []string{"/host/key"}, KnownHostsFile: "/host/known_hosts",
					Keepalive: config.Duration{Duration: 5 * time.Second}, KeepaliveMax: 3,
				},
				RuntimeSocket: "/run/containerd/containerd.sock", PodsDir: "/var/lib/burstlet/pods",
				SeccompProfileRoot: "/var/lib/kubelet/seccomp", CgroupParent: "burstlet",
				ContainerLogMaxSize: &config.Quantity{Quantity: resource.MustParse("10Mi")}, ContainerLogMaxFiles: 5,
				PodLogsDir: "/var/log/pods", ContainerLogsDir: "/var/log/containers", ResolvConf: "/etc/resolv.conf",
			}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := nodeConfig{
				kubeconfig: "/state/node.kubeconfig", clientCA: "/state/ca.crt", port: 10251, address: tc.address,
				bind: "127.0.0.1", election: tc.election, host: tc.host, cloud: tc.cloud,
			}
			content, err := c.render()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "burstlet.yaml")
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := config.Load(config.Sources{File: file})
			if err != nil {
				t.Fatalf("%v in:\n%s", err, content)
			}
			want := config.Default()
			want.Node = config.Node{Name: "burstlet-demo", InternalIP: tc.address, OnOtherProcess: config.OtherProcessReport}
			want.Kubeconfig = "/state/node.kubeconfig"
			want.Backend = tc.want
			if tc.cloud != nil {
				want.Node.Capacity = got.Node.Capacity // it has no other than the one it is given
			}
			if tc.host != nil {
				want.Eviction.Hard = map[string]string{}
			}
			if tc.election != "" {
				want.LeaderElection.Enabled, want.LeaderElection.Namespace = true, tc.election
				want.LeaderElection.Kubeconfig = "/state/node.kubeconfig"
			}
			want.KubeletAPI = config.KubeletAPI{
				Address: "127.0.0.1", Port: 10251, SelfSigned: true, ClientCAFile: "/state/ca.crt",
				EnableSystemLogHandler: true,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("wanted -, got +:\n%s", diff)
			}
		})
	}
}

// Demos that start at once get ports of their own.
func TestNoPortIsFoundTwice(t *testing.T) {
	found := map[int]bool{}
	for range 3 {
		port, release, err := freePort(loopback)
		if err != nil || found[port] {
			t.Fatalf("port %d, error %v", port, err)
		}
		found[port] = true
		t.Cleanup(func() {
			if err := release(); err != nil {
				t.Error(err)
			}
		})
	}
}
