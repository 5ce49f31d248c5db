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
			strings.Replace(
				head, "name: one", "name: one, taints: [{key: a, effect: NoSchedule, operator: Exists}], lables: {a: b}", 1,
			) + sim,
			"read configuration FILE: node.lables: unknown key\nnode.taints[0].operator: unknown key",
		},
		"OpenSSH's ProxyCommand": {
			head + "backend: {type: cri, cri: {endpoint: ssh://a@b, ssh: {ProxyCommand: nc %h %p}}}\n",
			"read configuration FILE: backend.cri.ssh.ProxyCommand: unknown key: no program is run to reach a host: " +
				"name jump hosts in jumpHosts",
		},
		"ProxyCommand elsewhere": {
			head + sim + "proxyCommand: x\n",
			"read configuration FILE: proxyCommand: unknown key",
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
		"the annotation of the identity": {
			strings.Replace(head, "name: one", "name: one, annotations: {burstlet.dev/identity: a}", 1) + sim,
			"check FILE: node.annotations[burstlet.dev/identity]: Forbidden: burstlet writes it: set node.identity",
		},
		"an unknown answer to another process": {
			strings.Replace(head, "name: one", "name: one, onOtherProcess: kill", 1) + sim,
			"check FILE: node.onOtherProcess: Unsupported value: \"kill\": supported values: \"report\", \"stop\"",
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
		"a host over SSH without a word how": {
			head + "backend: {type: cri, cri: {endpoint: ssh://burst@192.0.2.9}}\n",
			"check FILE: backend.cri.ssh: Required value: how the host is reached: keyFiles or agent, and knownHostsFile",
		},
		"SSH that nobody can trust": {
			head + `backend:
  type: cri
  cri:
    endpoint: ssh://192.0.2.9/run
    podsDir: /
    containerLogMaxFiles: 1
    ssh: {jumpHosts: ["gate.example.org", "me:secret@gate"], jumpKeyFiles: {me@other: [/k], gate.example.org: []}, keepaliveMax: -1}
`,
			`check FILE: backend.cri.endpoint: Invalid value: "ssh://192.0.2.9/run": must be user@host or user@host:port
backend.cri.ssh.keyFiles: Required value: private keys to log in with, or agent, the socket of an SSH agent
backend.cri.ssh.knownHostsFile: Required value: the keys of the host, as ssh-keyscan prints them (compare them with the host's own); insecureIgnoreHostKey: true does without, and lets anyone in between read and change everything
backend.cri.ssh.jumpHosts[0]: Invalid value: "gate.example.org": must be user@host or user@host:port
backend.cri.ssh.jumpHosts[1]: Invalid value: "(hidden)": must not hold a password: give a key
backend.cri.ssh.jumpKeyFiles[gate.example.org]: Required value: the paths of the private keys that it takes
backend.cri.ssh.jumpKeyFiles[me@other]: Invalid value: "me@other": must be an entry of jumpHosts, as it stands there
backend.cri.ssh.keepaliveMax: Invalid value: -1: must be at least 1
backend.cri.podsDir: Invalid value: "/": must be an absolute path
backend.cri.containerLogMaxFiles: Invalid value: 1: must be at least 2`,
		},
		"reservations that cannot be": {
			"apiVersion: burstlet.dev/v1alpha1\nkind: BurstletConfiguration\nnode: {name: one, capacity: {cpu: 4, memory: 1Gi}}\n" +
				"backend: {type: cri, cri: {systemReserved: {cpu: 4, memory: -1, pid: 1.5}}}\n",
			`check FILE: backend.cri.systemReserved.memory: Invalid value: "-1": must not be negative
backend.cri.systemReserved.pid: Invalid value: "1500m": must be a whole number
node.capacity.cpu: Invalid value: "4": must be more than backend.cri.systemReserved.cpu, 4`,
		},
		"SSH with a local socket": {
			head + "backend: {type: cri, cri: {ssh: {agent: /run/agent, insecureIgnoreHostKey: true}}}\n",
			"check FILE: backend.cri.ssh: Forbidden: only with an endpoint as in ssh://user@host",
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
		"images that are garbage too soon": {
			head + sim + "images: {imageGCHighThresholdPercent: 101, imageGCLowThresholdPercent: 101, imageMinimumGCAge: -1s, " +
				"imageMaximumGCAge: -1s, nodeStatusMaxImages: -2}\n",
			"check FILE: images.imageGCHighThresholdPercent: Invalid value: 101: must be between 0 and 100, inclusive\n" +
				"images.imageGCLowThresholdPercent: Invalid value: 101: must be between 0 and 100, inclusive\n" +
				"images.imageGCLowThresholdPercent: Invalid value: 101: must be less than imageGCHighThresholdPercent 101\n" +
				"images.imageMinimumGCAge: Invalid value: \"-1s\": must not be negative\n" +
				"images.imageMaximumGCAge: Invalid value: \"-1s\": must not be negative\n" +
				"images.nodeStatusMaxImages: Invalid value: -2: must be -1 or greater",
		},
		"images that are too old before they may go": {
			head + sim + "images: {imageMinimumGCAge: 1h, imageMaximumGCAge: 1h}\n",
			"check FILE: images.imageMaximumGCAge: Invalid value: \"1h0m0s\": must be greater than imageMinimumGCAge 1h0m0s",
		},
		"plugins without their directory": {
			head + sim + "images: {imageCredentialProviderConfigFile: plugins.yaml}\n",
			"check FILE: images.imageCredentialProviderConfigFile: Invalid value: \"plugins.yaml\": must be an absolute path\n" +
				"images.imageCredentialProviderBinDir: Required value: imageCredentialProviderConfigFile and " +
				"imageCredentialProviderBinDir need each other",
		},
		"evictions": {
			head + sim +
				"eviction: {evictionHard: {disk: 1Gi}, evictionSoft: {memory.available: 1Gi}, evictionMaxPodGracePeriod: -1, " +
				"evictionPressureTransitionPeriod: -1s}\n",
			"check FILE: eviction.evictionHard[disk]: Unsupported value: \"disk\": supported values: \"memory.available\", " +
				"\"allocatableMemory.available\", \"nodefs.available\", \"nodefs.inodesFree\", \"imagefs.available\", " +
				"\"imagefs.inodesFree\", \"pid.available\"\n" +
				"eviction.evictionSoftGracePeriod[memory.available]: Required value: grace period must be specified for the " +
				"soft eviction threshold memory.available\n" +
				"eviction.evictionMaxPodGracePeriod: Invalid value: -1: must not be negative\n" +
				"eviction.evictionPressureTransitionPeriod: Invalid value: \"-1s\": must not be negative",
		},
		"evictions where pods share no host": {
			head +
				"backend: {type: sim, sim: {granularity: pod}}\neviction: {evictionHard: {memory.available: 1Gi}, evictionMaxPodGracePeriod: 1}\n",
			"check FILE: eviction.evictionHard: Forbidden: pods of this backend share no host that could run short of " +
				"something: leave it out\n" +
				"eviction.evictionMaxPodGracePeriod: Forbidden: pods of this backend share no host that could run short of " +
				"something: leave it out",
		},
		"a certificate without its key": {
			head + "backend: {type: sim}\nkubeletAPI: {certFile: /a}\n",
			"check FILE: kubeletAPI.keyFile: Required value: certFile is set; both belong together",
		},
		"a key without its certificate": {
			head + "backend: {type: sim}\nkubeletAPI: {keyFile: /a}\n",
			"check FILE: kubeletAPI.certFile: Required value: keyFile is set; both belong together",
		},
		"a query of logs without the logs": {
			head +
				"backend: {type: sim}\nkubeletAPI: {selfSigned: true, enableSystemLogHandler: false, enableSystemLogQuery: true}\n",
			"check FILE: kubeletAPI.enableSystemLogQuery: Invalid value: true: needs enableSystemLogHandler",
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
			head +
				"backend: {type: cri, cri: {endpoint: /run/x.sock, podLogsDir: logs, cgroupParent: a/b, cgroupDriver: x}}\nkubeletAPI: {selfSigned: true}\n",
			`check FILE: backend.cri.endpoint: Invalid value: "/run/x.sock": must be unix:// and an absolute path, as in unix:///run/containerd/containerd.sock, or ssh://user@host
backend.cri.podLogsDir: Invalid value: "logs": must be an absolute path
backend.cri.cgroupParent: Invalid value: "a/b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
backend.cri.cgroupDriver: Unsupported value: "x": supported values: "cgroupfs", "systemd"`,
		},
		"wrong ecs": {
			head +
				"backend: {type: ecs, ecs: {region: r, cluster: c, subnets: [subnet-1], unusedAfter: 10m, capacityTypes: " +
				"[SPOT], ephemeralStorageGiB: 20, " +
				"logOptions: {mode: blocking}, prices: {vcpu: 1, gb: 1001, armVCPU: 1, storageGB: -1, ebsGB: -1, spotFactor: 2}, " +
				"ebs: {volumeType: standard, filesystemType: zfs, kmsKeyID: k}}}\nkubeletAPI: {selfSigned: true}\n",
			`check FILE: backend.ecs.unusedAfter: Invalid value: "10m0s": must be at least 1h
backend.ecs.capacityTypes[0]: Unsupported value: "SPOT": supported values: "on-demand", "spot"
backend.ecs.ephemeralStorageGiB: Invalid value: 20: must be 21 to 200, or 0 for Fargate's 20
backend.ecs.logGroup: Required value: logOptions are those of its log driver
backend.ecs.ebs.roleARN: Required value: the role by which Amazon ECS makes volumes
backend.ecs.ebs.volumeType: Unsupported value: "standard": supported values: "gp3", "gp2", "io1", "io2", "st1", "sc1"
backend.ecs.ebs.filesystemType: Unsupported value: "zfs": supported values: "ext3", "ext4", "xfs"
backend.ecs.ebs.kmsKeyID: Invalid value: "k": is for encrypted volumes: set encrypted
backend.ecs.prices.gb: Invalid value: 1001: must be dollars an hour, at most 1000
backend.ecs.prices.armGB: Invalid value: 0: must be dollars an hour
backend.ecs.prices.storageGB: Invalid value: -1: must be dollars an hour
backend.ecs.prices.ebsGB: Invalid value: -1: must be dollars an hour
backend.ecs.prices.spotFactor: Invalid value: 2: must be 0 to 1
node.capacity.cpu: Required value: the ecs backend has no size of its own: say how much of the account's Fargate quota the node may use
node.capacity.memory: Required value: the ecs backend has no size of its own: say how much of the account's Fargate quota the node may use`,
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
