package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// good are values to which each bad one is added.
const good = "nodes: {demo: {backend: {type: sim}}}\n"

const host = "nodes: {edge: {backend: {type: cri, cri: {endpoint: ssh://a@192.0.2.1}}}}\n"

const fargate = "node: {capacity: {cpu: 1, memory: 2Gi}}, backend: {type: ecs, ecs: "

// TestBadValues: what cannot be is refused by a message that names the value and says
// what is wrong with it.
func TestBadValues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values string
		want   []string
	}{
		"no nodes":                 {"", []string{"nodes: give at least one node"}},
		"only nodes that are null": {"nodes: {gone: null}\n", []string{"nodes: give at least one node"}},
		"no replicas":              {good + "replicas: 0\n", []string{"'/replicas'", "got 0, want 1"}},
		"a word for a number":      {good + "replicas: two\n", []string{"'/replicas': got string, want integer"}},
		"a string for a list": {
			good + "imagePullSecrets: regcred\n", []string{"'/imagePullSecrets': got string, want array"},
		},
		"an unknown value": {good + "replica: 2\n", []string{"additional properties 'replica' not allowed"}},
		"an unknown one below": {
			good + "image: {name: x}\n", []string{"'/image': additional properties 'name' not allowed"},
		},
		"an unknown one in config": {
			good + "config: {leaderElections: {}}\n", []string{"'/config': additional properties 'leaderElections' not allowed"},
		},
		"an unknown one deep there": {
			good + "config: {node: {lables: {a: b}}}\n", []string{"'/config/node': additional properties 'lables' not allowed"},
		},
		"an unknown one of a node": {
			"nodes: {demo: {replicas: 2}}\n", []string{"'/nodes/demo': additional properties 'replicas' not allowed"},
		},
		"an unknown one deep in it": {
			"nodes: {demo: {backend: {type: sim, sim: {granulrity: pod}}}}\n",
			[]string{"'/nodes/demo/backend/sim': additional properties 'granulrity' not allowed"},
		},
		"an unknown one of its keys": {
			"nodes: {demo: {sshKeys: {secret: x}}}\n",
			[]string{"'/nodes/demo/sshKeys': additional properties 'secret' not allowed"},
		},
		"the kind of the file": {
			good + "config: {kind: BurstletConfiguration}\n", []string{"'/config': additional properties 'kind' not allowed"},
		},
		"nodes in config": {
			good + "config: {nodes: []}\n", []string{"'/config': additional properties 'nodes' not allowed"},
		},
		"an unknown backend": {
			"nodes: {demo: {backend: {type: lambda}}}\n",
			[]string{"'/nodes/demo/backend/type': value must be one of 'sim', 'cri', 'ecs'"},
		},
		"no backend": {"nodes: {demo: {}}\n", []string{"nodes.demo.backend.type: give cri, ecs or sim"}},
		"a port too high": {
			good + "config: {kubeletAPI: {port: 70000}}\n",
			[]string{"'/config/kubeletAPI/port': maximum: got 70,000, want 65,535"},
		},
		"a number for a duration": {
			good + "config: {shutdown: {flushTimeout: 10}}\n",
			[]string{"'/config/shutdown/flushTimeout': got number, want string"},
		},
		"an unknown mode of identity": {
			good + "identity: {mode: token}\n",
			[]string{"'/identity/mode': value must be one of 'impersonation', 'bootstrap', 'kubeconfig'"},
		},
		"a public key": {
			host + "sshKeys: {privateKey: ssh-ed25519 AAAA}\n", []string{"'/sshKeys/privateKey'", "PRIVATE KEY"},
		},
		"a name that no node may have": {
			"nodes: {Demo_1: {backend: {type: sim}}}\n", []string{`nodes.Demo_1: "Demo_1" is no name for a node`},
		},
		"another name in the entry": {
			"nodes: {demo: {node: {name: other}, backend: {type: sim}}}\n",
			[]string{`nodes.demo.node.name: "other" is another name than the key`},
		},
		"a name for all": {
			good + "config: {node: {name: demo}}\n", []string{"config.node.name: each node has its own"},
		},
		"an identity for all": {
			good + "config: {node: {identity: demo}}\n", []string{"config.node.identity: each node has its own"},
		},
		"two nodes on one port": {
			"nodes: {a: {backend: {type: sim}}, b: {backend: {type: sim}, kubeletAPI: {port: 10250}}}\n",
			[]string{"nodes.b.kubeletAPI.port: 10250 is taken by nodes.a"},
		},
		"the port of the probes": {
			good + "config: {kubeletAPI: {port: 10248}}\n",
			[]string{"nodes.demo.kubeletAPI.port: 10248 is taken by config.healthzPort"},
		},
		"no port for the probes": {
			good + "config: {healthzPort: 0}\n", []string{"config.healthzPort: the probes need it"},
		},
		"a section of another backend": {
			"nodes: {demo: {backend: {type: sim, cri: {podsDir: /x}}}}\n",
			[]string{"nodes.demo.backend.cri: the type of this node is sim"},
		},
		"that of all": {
			"nodes: {demo: {}}\nconfig: {backend: {type: sim, ecs: {region: r}}}\n",
			[]string{"nodes.demo.backend.ecs: the type of this node is sim"},
		},

		"ecs without a region": {
			"nodes: {f: {" + fargate + "{cluster: c, subnets: [subnet-1]}}}}\n",
			[]string{"nodes.f.backend.ecs.region: a node on ecs needs it"},
		},
		"ecs without a cluster": {
			"nodes: {f: {" + fargate + "{region: r, subnets: [subnet-1]}}}}\n",
			[]string{"nodes.f.backend.ecs.cluster: a node on ecs needs it"},
		},
		"ecs without subnets": {
			"nodes: {f: {" + fargate + "{region: r, cluster: c}}}}\n",
			[]string{"nodes.f.backend.ecs.subnets: a node on ecs needs it"},
		},
		"ecs without a capacity": {
			"nodes: {f: {node: {capacity: {cpu: 1}}, backend: {type: ecs, ecs: {region: r, cluster: c, subnets: " +
				"[subnet-1]}}}}\n",
			[]string{"nodes.f.node.capacity.memory: Fargate has no size of its own"},
		},

		"a host without keys": {
			host, []string{"nodes.edge.sshKeys: its host is reached over SSH: give existingSecret"},
		},
		"a host that nobody knows": {
			host + "sshKeys: {privateKey: -----BEGIN PRIVATE KEY-----}\n",
			[]string{"nodes.edge.sshKeys.knownHosts: give the host's keys"},
		},
		"two keys": {
			host + "sshKeys: {existingSecret: a, privateKey: -----BEGIN PRIVATE KEY-----}\n",
			[]string{"sshKeys.privateKey: excludes existingSecret"},
		},
		"two keys of a node": {
			strings.Replace(
				host, "{backend", "{sshKeys: {existingSecret: a, privateKey: -----BEGIN PRIVATE KEY-----}, backend", 1,
			),
			[]string{"nodes.edge.sshKeys.privateKey: excludes existingSecret"},
		},
		"a host without a user": {
			strings.Replace(host, "a@", "", 1),
			[]string{`nodes.edge.backend.cri.endpoint: "ssh://192.0.2.1" must be ssh://user@host`},
		},
		"a runtime that is not mounted": {
			"nodes: {edge: {backend: {type: cri}}}\n",
			[]string{"nodes.edge.backend.cri.endpoint: give ssh://user@host, or mount"},
		},
		"several without an election": {
			good + "replicas: 2\nconfig: {leaderElection: {enabled: false}}\n",
			[]string{"replicas: more than 1 needs config.leaderElection.enabled"},
		},
		"draining with an election": {
			good + "config: {shutdown: {mode: drain}}\n", []string{"config.shutdown.mode: drain excludes leader election"},
		},
		"two budgets": {
			good + "podDisruptionBudget: {minAvailable: 1}\n",
			[]string{"podDisruptionBudget.minAvailable: excludes maxUnavailable"},
		},
		"a budget that forbids draining": {
			good + "podDisruptionBudget: {minAvailable: 1, maxUnavailable: null}\n",
			[]string{"podDisruptionBudget.minAvailable: 1 of 1 replicas would forbid"},
		},
		"no account": {
			good + "serviceAccount: {create: false}\n", []string{"serviceAccount.name: with serviceAccount.create false"},
		},

		"bootstrap with nothing": {
			good + "identity: {mode: bootstrap}\n",
			[]string{"identity.bootstrap: with identity.mode bootstrap give existingSecret"},
		},
		"bootstrap with both": {
			good + "identity: {mode: bootstrap, bootstrap: {existingSecret: x, token: {create: true}}}\n",
			[]string{"identity.bootstrap.token.create: excludes identity.bootstrap.existingSecret"},
		},
		"a token for ever": {
			good + "identity: {mode: bootstrap, bootstrap: {token: {create: true}}}\n",
			[]string{"identity.bootstrap.token.expiration: is required with token.create"},
		},
		"bootstrap that nobody approves": {
			good + "identity: {mode: bootstrap, bootstrap: {existingSecret: x}}\napprover: {enabled: false}\n",
			[]string{"identity.bootstrap.autoApprove: the approver approves"},
		},
		"a group of nobody's tokens": {
			good + "identity: {mode: bootstrap, bootstrap: {existingSecret: x, group: masters}}\n",
			[]string{"'/identity/bootstrap/group': 'masters' does not match pattern"},
		},
		"half a token": {
			good +
				"identity: {mode: bootstrap, bootstrap: {token: {create: true, id: abcdef, expiration: " +
				"\"2030-01-02T15:04:05Z\"}}}\n",
			[]string{"identity.bootstrap.token: give both id and secret"},
		},
		"a token that is none": {
			good + "identity: {mode: bootstrap, bootstrap: {token: {id: ABC}}}\n",
			[]string{"'/identity/bootstrap/token/id': 'ABC' does not match pattern '^([a-z0-9]{6})?$'"},
		},
		"constraints in another mode": {
			good + "identity: {mode: bootstrap, constrainedImpersonation: never, bootstrap: {existingSecret: x}}\n",
			[]string{"identity.constrainedImpersonation: is for identity.mode impersonation, and the mode is bootstrap"},
		},
		"bootstrap in another mode": {
			good + "identity: {bootstrap: {existingSecret: x}}\n",
			[]string{"identity.bootstrap: is for identity.mode bootstrap"},
		},
		"a kubeconfig in another mode": {
			good + "config: {kubeconfig: /x}\n", []string{"config.kubeconfig: needs identity.mode kubeconfig"},
		},
		"that of a node": {
			"nodes: {demo: {backend: {type: sim}, bootstrapKubeconfig: /x}}\n",
			[]string{"nodes.demo.bootstrapKubeconfig: needs identity.mode kubeconfig"},
		},
		"a mode without its kubeconfig": {
			good + "identity: {mode: kubeconfig}\n", []string{"nodes.demo.kubeconfig: with identity.mode kubeconfig"},
		},
		"two certificates": {
			good + "config: {kubeletAPI: {selfSigned: true}}\n",
			[]string{"config.kubeletAPI.selfSigned: the chart sets it: see servingCertificate"},
		},
		"a certificate that is not there": {
			good + "servingCertificate: {mode: secret}\n",
			[]string{"servingCertificate.existingSecret: with servingCertificate.mode secret"},
		},
		"one that is not used": {
			good + "servingCertificate: {existingSecret: x}\n",
			[]string{"servingCertificate.existingSecret: is for servingCertificate.mode secret"},
		},
		"a signer that is not asked": {
			good + "servingCertificate: {signerName: a/b}\n",
			[]string{"servingCertificate.signerName: is for servingCertificate.mode csr"},
		},
		"the approver of another signer": {
			good +
				"servingCertificate: {mode: csr, signerName: a/b}\nidentity: {mode: bootstrap, bootstrap: {existingSecret: x}}\n",
			[]string{"approver.enabled: it approves for kubernetes.io/kubelet-serving alone"},
		},
		"the port of the host's kubelet": {
			good + "hostNetwork: true\n",
			[]string{"nodes.demo.kubeletAPI.port: with hostNetwork 10250 is the port of the host's own kubelet"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(file, []byte(tc.values), 0o600); err != nil {
				t.Fatal(err)
			}
			_, problems, err := helm(t, "template", namespace, chartDir, "--values", file)
			if err == nil {
				t.Fatal("they were taken")
			}
			for _, want := range tc.want {
				if !strings.Contains(problems, want) {
					t.Errorf("%q is missing in:\n%s", want, problems)
				}
			}
		})
	}
}
