package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/syncloop/eviction"
)

// several is a file with what its nodes have in common; entries follow.
const several = `apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
node: {labels: {team: blue}, taints: [], capacity: {pods: 20}, internalIP: 192.0.2.7}
kubeconfig: /common
backend: {type: cri, cri: {endpoint: "unix:///run/common.sock", cgroupParent: edge}}
kubeletAPI: {selfSigned: true}
pods: {hostPID: false, allowedUnsafeSysctls: [net.core.*]}
nodes:
`

func TestEntriesOverrideWhatNodesHaveInCommon(t *testing.T) {
	got := load(t, config.Sources{File: write(t, several+`
- node: {name: a}
- node: {name: b, labels: {rack: r1}, taints: [{key: k, effect: NoSchedule}], capacity: {pods: 5}}
  kubeconfig: /own
  backend: {cri: {endpoint: "unix:///run/b.sock"}}
  pods: {hostPID: true}
- node: {name: c, capacity: {cpu: 4, memory: 8Gi}}
  bootstrapKubeconfig: /bootstrap
  backend: {type: ecs, ecs: {region: r, cluster: c, subnets: [subnet-1]}}
  kubeletAPI: {port: 10350, certFile: /c, keyFile: /k}
  clusterDNS: [10.0.0.9]
`)})
	common := func(name string) config.NodeEntry {
		e := config.NodeEntry{
			Node: config.Node{
				Name: name, Labels: map[string]string{"team": "blue"}, Taints: []corev1.Taint{},
				Capacity: config.Capacity{Pods: quantity("20")}, OnOtherProcess: "report", InternalIP: "192.0.2.7",
			},
			Kubeconfig: "/common", CertDirectory: "/var/lib/burstlet/pki/" + name,
			Backend: config.Backend{Type: config.BackendCRI, CRI: &config.CRI{
				Endpoint: "unix:///run/common.sock", PodLogsDir: "/var/log/pods", ContainerLogsDir: "/var/log/containers",
				CgroupParent: "edge", ResolvConf: "/etc/resolv.conf",
				RuntimeSocket: "/run/containerd/containerd.sock", PodsDir: "/var/lib/burstlet/pods",
				SeccompProfileRoot: "/var/lib/kubelet/seccomp", ContainerLogMaxSize: quantity("10Mi"), ContainerLogMaxFiles: 5,
			}},
			KubeletAPI:    config.KubeletAPI{Port: 10250, SelfSigned: true, EnableSystemLogHandler: true},
			ClusterDomain: "cluster.local",
			Pods:          config.Default().Pods,
			Images:        config.Default().Images,
			Eviction:      config.Default().Eviction,
		}
		e.Eviction.Hard = eviction.DefaultHard()
		e.Pods.HostPID, e.Pods.AllowedUnsafeSysctls = false, []string{"net.core.*"}
		return e
	}
	a, b, c := common("a"), common("b"), common("c")
	b.Node.Labels = map[string]string{"team": "blue", "rack": "r1"}
	b.Node.Taints = []corev1.Taint{{Key: "k", Effect: "NoSchedule"}}
	b.Node.Capacity.Pods = quantity("5")
	b.Kubeconfig, b.KubeletAPI.Port, b.Pods.HostPID = "/own", 10251, true
	b.Backend.CRI.Endpoint = "unix:///run/b.sock"
	c.Node.Capacity.CPU, c.Node.Capacity.Memory = quantity("4"), quantity("8Gi")
	c.Kubeconfig, c.BootstrapKubeconfig, c.ClusterDNS = "", "/bootstrap", []string{"10.0.0.9"}
	c.Backend = config.Backend{Type: config.BackendECS, ECS: &config.ECS{
		Region: "r", Cluster: "c", Subnets: []string{"subnet-1"}, CPUArchitecture: "X86_64",
	}}
	c.KubeletAPI = config.KubeletAPI{Port: 10350, CertFile: "/c", KeyFile: "/k", EnableSystemLogHandler: true}
	c.Eviction.Hard = nil
	if diff := cmp.Diff([]config.NodeEntry{a, b, c}, got.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	each := got.Each()
	want := got
	want.Nodes, want.Node, want.Kubeconfig, want.CertDirectory = nil, b.Node, b.Kubeconfig, b.CertDirectory
	want.Backend, want.KubeletAPI, want.Pods, want.Eviction = b.Backend, b.KubeletAPI, b.Pods, b.Eviction
	if diff := cmp.Diff(want, each[1]); diff != "" || len(each) != 3 {
		t.Errorf("the second of %d (-want +got):\n%s", len(each), diff)
	}
	if lease := each[2].LeaseName(); lease != "burstlet-c" {
		t.Errorf("lease %s", lease)
	}
	got.LeaderElection.Name = "shared"
	for _, one := range got.Each() {
		if lease := one.LeaseName(); lease != "shared" {
			t.Errorf("node %s: lease %s, and one is named for all", one.Node.Name, lease)
		}
	}
}

func TestOneNodeIsItself(t *testing.T) {
	got := load(t, config.Sources{File: write(t, head+sim+"nodes: []\n")})
	if diff := cmp.Diff([]config.Configuration{got}, got.Each()); diff != "" || got.Nodes != nil {
		t.Errorf("nodes %v (-want +got):\n%s", got.Nodes, diff)
	}
}

// Variables and flags change what the nodes have in common.
func TestFlagsGoBelowEntries(t *testing.T) {
	got := load(t, config.Sources{
		File:  write(t, several+"- node: {name: a}\n- node: {name: b}\n  kubeconfig: /own\n"),
		Flags: map[string]string{"kubeconfig": "/flag", "kubelet-api-port": "11000"},
	}).Each()
	if got[0].Kubeconfig != "/flag" || got[1].Kubeconfig != "/own" || got[1].KubeletAPI.Port != 11001 {
		t.Errorf("a %+v, b %+v", got[0], got[1])
	}
}

func TestErrorsOfSeveralNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		file, want string
	}{
		"an unknown key in an entry": {
			several + "- node: {name: a}\n- node: {name: b}\n  backend: {cri: {endpont: x}}\n",
			"read configuration FILE: nodes[1].backend.cri.endpont: unknown key",
		},
		"OpenSSH's ProxyCommand in an entry": {
			several + "- node: {name: a}\n  backend: {cri: {ssh: {proxyCommand: x}}}\n",
			"read configuration FILE: nodes[0].backend.cri.ssh.proxyCommand: unknown key: no program is run to reach a host: " +
				"name jump hosts in jumpHosts",
		},
		"a key that is the process's": {
			several + "- node: {name: a}\n  logging: {level: info}\n",
			"read configuration FILE: nodes[0].logging: unknown key",
		},
		"a wrong type in an entry": {
			several + "- node: {name: a}\n- kubeletAPI: {port: https}\n",
			"read configuration FILE: nodes[1].kubeletAPI.port: must be a whole number, not a string",
		},
		"no list": {
			several + "  a: {}\n",
			"read configuration FILE: nodes: must be a list, not a mapping of keys",
		},
		"no names, no entry": {
			several + "-\n- node: {name: B}\n",
			`check FILE: nodes[0].node.name: Required value: the name of the Node that the credential is for
nodes[1].node.name: Invalid value: "B": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		},
		"names, identities and ports twice": {
			several + `
- node: {name: a, identity: i}
- node: {name: b, identity: i}
  kubeletAPI: {port: 10250}
- node: {name: a}
  kubeletAPI: {port: 10250, address: 192.0.2.7}
`,
			`check FILE: nodes[1].node.identity: Invalid value: "i": nodes[0] has it too
nodes[1].kubeletAPI.port: Invalid value: 10250: nodes[0] has it too
nodes[2].node.name: Invalid value: "a": nodes[0] has it too
nodes[2].kubeletAPI.port: Invalid value: 10250: nodes[0] has it too
nodes[2].kubeletAPI.port: Invalid value: 10250: nodes[1] has it too`,
		},
		"node and nodes": {
			strings.Replace(several, "node: {", "node: {name: x, identity: id, ", 1) + "- node: {name: a, identity: b}\n",
			`check FILE: node.name: Forbidden: nodes is set: every entry has its own
node.identity: Forbidden: nodes is set: every entry has its own`,
		},
		"a backend that an entry gives half": {
			several + "- node: {name: a}\n  backend: {type: ecs}\n",
			`check FILE: nodes[0].backend.ecs.region: Required value: an AWS region such as eu-central-1
nodes[0].backend.ecs.cluster: Required value: the name or ARN of an ECS cluster
nodes[0].backend.ecs.subnets: Required value: the ids of 1 to 16 subnets
nodes[0].node.capacity.cpu: Required value: the ecs backend has no size of its own: say how much of the account's Fargate quota the node may use
nodes[0].node.capacity.memory: Required value: the ecs backend has no size of its own: say how much of the account's Fargate quota the node may use`,
		},
		"one directory for two credentials": {
			several +
				"- node: {name: a}\n  bootstrapKubeconfig: /b\n  certDirectory: /d\n- node: {name: b}\n  bootstrapKubeconfig: /b\n  certDirectory: /d\n",
			`check FILE: nodes[1].certDirectory: Invalid value: "/d": nodes[0] has it too`,
		},
		"one lease for all, of no name": {
			several + "- node: {name: a}\n- node: {name: b}\nleaderElection: {enabled: true, namespace: ns, name: X}\n",
			"check FILE: leaderElection.name: Invalid value: \"X\": a lowercase RFC 1123 subdomain must consist of lower " +
				"case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. " +
				"'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, tc.file)
			_, err := config.Load(config.Sources{File: path})
			if err == nil {
				t.Fatal("no error")
			}
			if got := strings.ReplaceAll(err.Error(), path, "FILE"); got != tc.want {
				t.Errorf("error\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestErrorsOfTheProcess(t *testing.T) {
	for name, tc := range map[string]struct {
		file, want string
	}{
		"an election without a namespace": {
			"leaderElection: {enabled: true}\n",
			"leaderElection.namespace: Required value: this process runs in no pod whose namespace would be taken",
		},
		"an election's times": {
			"leaderElection: {enabled: true, namespace: ns, leaseDuration: 1500ms, renewDeadline: 2s, retryPeriod: 2s}\n",
			`leaderElection.leaseDuration: Invalid value: "1.5s": must be whole seconds, at least one
leaderElection.leaseDuration: Invalid value: "1.5s": must be longer than renewDeadline
leaderElection.renewDeadline: Invalid value: "2s": must be longer than 1.2 times retryPeriod`,
		},
		"a drain under an election": {
			"leaderElection: {enabled: true, namespace: ns}\nshutdown: {mode: drain}\n",
			`shutdown.mode: Invalid value: "drain": excludes leaderElection: whoever leads next takes the pods over`,
		},
		"a drain's times": {
			"shutdown: {mode: drain, gracePeriod: 500ms, gracePeriodCriticalPods: 10s}\n",
			`shutdown.gracePeriod: Invalid value: "500ms": must be at least 1s to drain
shutdown.gracePeriodCriticalPods: Invalid value: "10s": is a part of gracePeriod and must not be longer`,
		},
		"two credentials": {
			"kubeconfig: /a\nbootstrapKubeconfig: /b\ncertDirectory: pki\n",
			`bootstrapKubeconfig: Invalid value: "/b": excludes kubeconfig
certDirectory: Invalid value: "pki": must be an absolute path`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, head+sim+tc.file)
			_, err := config.Load(config.Sources{File: path})
			if err == nil || err.Error() != "check "+path+": "+tc.want {
				t.Errorf("error\n%v\nwant\ncheck %s: %s", err, path, tc.want)
			}
		})
	}
}

// An election takes the namespace of the process's own pod.
func TestElectionInAPod(t *testing.T) {
	got := load(t, config.Sources{File: write(t, head+sim+"leaderElection: {enabled: true}\n"), PodNamespace: "release"})
	if got.LeaderElection.Namespace != "release" || got.LeaseName() != "burstlet-one" {
		t.Errorf("%+v, lease %s", got.LeaderElection, got.LeaseName())
	}
}
