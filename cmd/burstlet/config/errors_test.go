package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// The messages are what a user has to work with, so they stand here whole; FILE
// is the path of the file.
func TestLoadErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		file, want string
	}{
		"unknown key": {
			head + sim + "loging: {level: info}\n",
			"read configuration FILE: loging: unknown key",
		},
		"unknown keys deep down": {
			strings.Replace(head, "name: one", "name: one, taints: [{key: a, effect: NoSchedule, operator: Exists}], lables: {a: b}", 1) + sim,
			"read configuration FILE: node.lables: unknown key\nnode.taints[0].operator: unknown key",
		},
		"a key in the wrong case": {
			head + sim + "clusterdns: [10.0.0.1]\n",
			"read configuration FILE: clusterdns: unknown key",
		},
		"repeated key": {
			head + "node: {name: m}\n" + sim,
			"read configuration FILE: line 4: key \"node\" already set in map",
		},
		"not YAML": {
			"node: [\n",
			"read configuration FILE: line 1: did not find expected node content",
		},
		"not a mapping": {
			"- a\n",
			"read configuration FILE: it must be a mapping of keys, not a list",
		},
		"empty": {
			"# nothing\n",
			"read configuration FILE: it is empty",
		},
		"string for a number": {
			head + "backend: {type: sim}\nkubeletAPI: {selfSigned: true, port: https}\n",
			"read configuration FILE: kubeletAPI.port: must be a whole number, not a string",
		},
		"fraction for a whole number": {
			head + "backend: {type: sim}\nkubeletAPI: {selfSigned: true, port: 1.5}\n",
			"read configuration FILE: kubeletAPI.port: must be a whole number, not 1.5",
		},
		"string for a list": {
			head + sim + "clusterDNS: 10.0.0.1\n",
			"read configuration FILE: clusterDNS: must be a list, not a string",
		},
		"list for a mapping": {
			head + "backend: [sim]\n",
			"read configuration FILE: backend: must be a mapping of keys, not a list",
		},
		"string for a switch": {
			head + "backend: {type: sim}\nkubeletAPI: {selfSigned: \"true\"}\n",
			"read configuration FILE: kubeletAPI.selfSigned: must be true or false, not a string",
		},
		"bad quantity": {
			strings.Replace(head, "name: one", "name: one, capacity: {memory: 16 GB}", 1) + sim,
			"read configuration FILE: node.capacity.memory: must be a quantity such as 4, 500m or 16Gi, not \"16 GB\"",
		},
		"bad duration": {
			head + sim + "shutdown: {flushTimeout: ten}\n",
			"read configuration FILE: shutdown.flushTimeout: must be a duration such as 10s, not \"ten\"",
		},
		"duration without a unit": {
			head + sim + "shutdown: {flushTimeout: 10}\n",
			"read configuration FILE: shutdown.flushTimeout: must be a duration such as 10s, not 10",
		},
		"another kind of file": {
			"apiVersion: v1\nkind: Pod\nnode: {name: one}\n" + sim,
			"check FILE: apiVersion: Unsupported value: \"v1\": supported values: \"burstlet.dev/v1alpha1\"\n" +
				"kind: Unsupported value: \"Pod\": supported values: \"BurstletConfiguration\"",
		},
		"nothing chosen": {
			"apiVersion: burstlet.dev/v1alpha1\nkind: BurstletConfiguration\n",
			"check FILE: node.name: Required value: the name of the Node that the credential is for\n" +
				"backend.type: Required value: one of sim, cri, ecs",
		},
		"many wrong values at once": {
			`apiVersion: burstlet.dev/v1alpha1
kind: BurstletConfiguration
node:
  name: one
  taints: [{key: a, effect: Never}]
  capacity: {cpu: -1, pods: 1.5}
  internalIP: host
client: {qps: 0, burst: 0}
backend: {type: docker}
kubeletAPI: {address: "", port: 70000, certFile: /a, selfSigned: true}
clusterDNS: [10.0.0.1, dns]
pods: {apiServer: 10.0.0.1, maxParallelImagePulls: 0}
logging: {level: loud, format: xml}
shutdown: {flushTimeout: -1s}
`,
			`check FILE: node.capacity.cpu: Invalid value: "-1": must not be negative
node.capacity.pods: Invalid value: "1500m": must be a whole number
node.internalIP: Invalid value: "host": must be an IP address
node.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
backend.type: Unsupported value: "docker": supported values: "sim", "cri", "ecs"
kubeletAPI.port: Invalid value: 70000: must be between 1 and 65535, inclusive
kubeletAPI.selfSigned: Invalid value: true: excludes certFile and keyFile
clusterDNS[1]: Invalid value: "dns": must be an IP address
pods.apiServer: Invalid value: "10.0.0.1": must be an IP address and a port, as in 192.0.2.1:6443
pods.maxParallelImagePulls: Invalid value: 0: must be at least 1
client.qps: Invalid value: 0: must be greater than 0
client.burst: Invalid value: 0: must be at least 1
logging.level: Unsupported value: "loud": supported values: "error", "warn", "info", "debug", "trace"
logging.format: Unsupported value: "xml": supported values: "text", "json"
shutdown.flushTimeout: Invalid value: "-1s": must not be negative`,
		},
		"a certificate without its key": {
			head + "backend: {type: sim}\nkubeletAPI: {certFile: /a}\n",
			"check FILE: kubeletAPI.keyFile: Required value: certFile is set; both belong together",
		},
		"a key without its certificate": {
			head + "backend: {type: sim}\nkubeletAPI: {keyFile: /a}\n",
			"check FILE: kubeletAPI.certFile: Required value: keyFile is set; both belong together",
		},
		"a section of another backend": {
			head + "backend: {type: sim, cri: {}}\nkubeletAPI: {selfSigned: true}\n",
			"check FILE: backend.cri: Forbidden: backend.type is \"sim\"; nothing of another backend may be set",
		},
		"wrong sim": {
			head + "backend: {type: sim, sim: {socket: unix://s, granularity: pod}}\nkubeletAPI: {selfSigned: true}\n",
			`check FILE: backend.sim.socket: Invalid value: "unix://s": must be unix:// and an absolute path, as in unix:///run/burstlet-sim.sock
backend.sim.granularity: Forbidden: the process behind socket decides (burstlet sim --pod-unit)`,
		},
		"wrong cri": {
			head + "backend: {type: cri, cri: {endpoint: /run/x.sock, podLogsDir: logs, cgroupParent: a/b, cgroupDriver: x}}\nkubeletAPI: {selfSigned: true}\n",
			`check FILE: backend.cri.endpoint: Invalid value: "/run/x.sock": must be unix:// and an absolute path, as in unix:///run/containerd/containerd.sock
backend.cri.podLogsDir: Invalid value: "logs": must be an absolute path
backend.cri.cgroupParent: Invalid value: "a/b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
backend.cri.cgroupDriver: Unsupported value: "x": supported values: "cgroupfs", "systemd"`,
		},
		"ecs with nothing": {
			head + "backend: {type: ecs}\nkubeletAPI: {selfSigned: true}\n",
			`check FILE: backend.ecs.region: Required value: an AWS region such as eu-central-1
backend.ecs.cluster: Required value: the name or ARN of an ECS cluster
backend.ecs.subnets: Required value: the ids of 1 to 16 subnets
node.capacity.cpu: Required value: the ecs backend has no size of its own: say how much of the account's Fargate quota the node may use
node.capacity.memory: Required value: the ecs backend has no size of its own: say how much of the account's Fargate quota the node may use`,
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

func TestLoadErrorsOfFlagsAndEnvironment(t *testing.T) {
	_, err := config.Load(config.Sources{
		LookupEnv: environ(map[string]string{
			"BURSTLET_KUBELET_API_PORT": "tcp://10.0.0.1:80", "BURSTLET_SHUTDOWN_FLUSH_TIMEOUT": "soon",
		}),
		Flags: map[string]string{"kubelet-api-self-signed": "maybe"},
	})
	want := `environment variable BURSTLET_KUBELET_API_PORT: "tcp://10.0.0.1:80" is not a whole number
flag --kubelet-api-self-signed: must be true or false
environment variable BURSTLET_SHUTDOWN_FLUSH_TIMEOUT: "soon" is not a duration such as 10s`
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v\nwant\n%s", err, want)
	}
}

func TestLoadFileThatIsNotThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent.yaml")
	_, err := config.Load(config.Sources{File: path})
	want := "read configuration: open " + path + ": no such file or directory"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
