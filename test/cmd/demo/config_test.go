package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// TestRender lets burstlet itself read what was rendered.
func TestRender(t *testing.T) {
	tests := map[string]struct {
		host *hostConfig
		want config.Backend
	}{
		"simulated": {
			want: config.Backend{Type: "sim", Sim: &config.Sim{Granularity: "container"}},
		},
		"containerd": {
			host: &hostConfig{endpoint: "unix:///host/cri.sock", logs: "/host/logs", cgroup: "burstlet-demo-7"},
			want: config.Backend{Type: "cri", CRI: &config.CRI{
				Endpoint: "unix:///host/cri.sock", CgroupParent: "burstlet-demo-7",
				PodLogsDir: "/host/logs/pods", ContainerLogsDir: "/host/logs/containers",
				ResolvConf: "/etc/resolv.conf",
			}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := nodeConfig{kubeconfig: "/state/node.kubeconfig", clientCA: "/state/ca.crt", port: 10251, host: tc.host}
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
			want.Node = config.Node{Name: "burstlet", InternalIP: "127.0.0.1"}
			want.Kubeconfig = "/state/node.kubeconfig"
			want.Backend = tc.want
			want.KubeletAPI = config.KubeletAPI{
				Address: "127.0.0.1", Port: 10251, SelfSigned: true, ClientCAFile: "/state/ca.crt",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("wanted -, got +:\n%s", diff)
			}
		})
	}
}

func TestChildEnv(t *testing.T) {
	got := childEnv([]string{"PATH=/bin", "BURSTLET_BACKEND=ecs", "KUBECONFIG=/theirs", "HOME=/root"})
	if diff := cmp.Diff([]string{"PATH=/bin", "HOME=/root"}, got); diff != "" {
		t.Errorf("wanted -, got +:\n%s", diff)
	}
}
