package taskdef

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// fullConfig is one of a node that can do all that there is.
var fullConfig = func() Config {
	c := goldenConfig
	c.TaskImage = "registry.example/burstlet:1"
	c.EBS = EBS{RoleARN: "arn:aws:iam::123456789012:role/volumes", Encrypted: true, KMSKeyID: "alias/burst"}
	return c
}()

// bareConfig has what is required alone.
var bareConfig = Config{Region: "eu-central-1", Cluster: "c", Subnets: []string{"subnet-1"}, NodeIdentity: "n"}

// podSpecOf reads the fields of a pod's spec, or of the whole pod if they begin
// with metadata; without containers it has one.
func parsePod(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	meta := ""
	if rest, ok := strings.CutPrefix(text, "metadata:"); ok {
		line, spec, _ := strings.Cut(rest, "\n")
		meta, text = "metadata:"+line+"\n", spec
	}
	if !strings.Contains("\n"+text, "\ncontainers:") {
		text += "\ncontainers: [{name: a, image: i}]"
	}
	if err := yaml.UnmarshalStrict([]byte(meta+"spec:\n  "+strings.ReplaceAll(text, "\n", "\n  ")), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func fieldsRefused(t *testing.T, cfg Config, text string) []string {
	t.Helper()
	var got []string
	for _, r := range Checker(cfg).Check(parsePod(t, text)) {
		got = append(got, r.Field)
		if r.Why == "" {
			t.Errorf("%s: no why", r.Field)
		}
	}
	return got
}

func checkCases(t *testing.T, cfg Config, cases map[string][]string) {
	t.Helper()
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			if d := cmp.Diff(want, fieldsRefused(t, cfg, text)); d != "" {
				t.Fatal(d)
			}
		})
	}
}

func TestCheckOfPods(t *testing.T) {
	checkCases(t, fullConfig, map[string][]string{
		"dnsPolicy: ClusterFirst\nenableServiceLinks: true\nserviceAccountName: default\nautomountServiceAccountToken: false\n" +
			"schedulerName: s\nsecurityContext: {}\ntolerations: [{operator: Exists}]\npriority: 1\nrestartPolicy: Always\n": nil,
		"dnsPolicy: None":                    nil,
		"dnsConfig: {nameservers: [a]}":      nil,
		"hostAliases: [{ip: 192.0.2.1}]":     nil,
		"hostNetwork: true\nhostPID: true":   {"spec.hostNetwork", "spec.hostPID"},
		"hostUsers: false":                   {"spec.hostUsers"},
		"hostUsers: true":                    nil,
		"hostname: web-0\nsubdomain: web":    nil,
		"setHostnameAsFQDN: true":            {"spec.setHostnameAsFQDN"},
		"setHostnameAsFQDN: false":           nil,
		"os: {name: linux}":                  nil,
		"os: {name: windows}":                {"spec.os"},
		"terminationGracePeriodSeconds: 120": nil,
		"terminationGracePeriodSeconds: 121": {"spec.terminationGracePeriodSeconds"},
		"metadata: {annotations: {ecs.burstlet.dev/clamp-grace: 'true'}}\nterminationGracePeriodSeconds: 300": nil,
		"imagePullSecrets: [{name: a}]":                       nil,
		"resources: {limits: {cpu: 1, memory: 1Gi}}":          nil,
		"resources: {limits: {hugepages-2Mi: 2Mi}}":           {"spec.resources.limits.hugepages-2Mi"},
		"securityContext: {fsGroup: 1, sysctls: [{name: a}]}": {"spec.securityContext.sysctls[0]"},
		"securityContext: {sysctls: [{name: net.core.somaxconn}, {name: kernel.shm_rmid_forced}, {name: " +
			"net/ipv4/tcp_syncookies}]}": nil,
		"securityContext: {sysctls: [{name: kernel.semmni}, {name: vm.max_map_count}]}": {
			"spec.securityContext.sysctls[0]", "spec.securityContext.sysctls[1]",
		},
		"metadata: {annotations: {ecs.burstlet.dev/unenforced: 'fsGroup,supplementalGroups'}}\nsecurityContext: {fsGroup: 1, supplementalGroups: [2]}": nil,
		"securityContext: {seLinuxOptions: {level: s0}}": nil,
		"securityContext: {seLinuxOptions: {level: 's0:c1,c2'}}": {
			"spec.securityContext.seLinuxOptions",
		},
		"securityContext: {seLinuxOptions: {level: s0, type: spc_t}}": {
			"spec.securityContext.seLinuxOptions",
		},
		"securityContext: {seccompProfile: {type: Unconfined}}": {
			"spec.securityContext.seccompProfile",
		},
		"securityContext: {runAsNonRoot: true}":                              nil,
		"securityContext: {runAsNonRoot: true, runAsUser: 0}":                nil,
		"securityContext: {runAsNonRoot: true, runAsUser: 5, runAsGroup: 6}": nil,
		"securityContext: {runAsGroup: 6}":                                   nil,
		"initContainers: [{name: b, image: i, restartPolicy: Always}]":       nil,
		"initContainers: [{name: b, image: i, restartPolicy: Never}]": {
			"spec.initContainers[0].restartPolicy",
		},
		"containers: [{name: a, image: i}, {name: b, image: i}]":  nil,
		"containers: [{name: burstlet-init, image: i}]":           {"spec.containers[0].name"},
		"initContainers: [{name: i}, {}, {}, {}, {}, {}, {}, {}]": {"spec.containers"},
		"initContainers: [{name: i}, {}, {}, {}, {}, {}, {}]":     nil,
		"containers: [{name: i}, {}, {}, {}, {}, {}, {}, {}]":     nil,
		"containers: [{name: i}, {}, {}, {}, {}, {}, {}, {}, {}]": {"spec.containers"},
		"ephemeralContainers: [{name: b, image: i}]":              {"spec.ephemeralContainers"},
		"containers: [{name: a, resources: {requests: {cpu: 33}}}]": {
			"spec.containers[*].resources",
		},
		"containers: [{name: a, resources: {requests: {memory: 300Gi}}}]": {
			"spec.containers[*].resources",
		},
		"containers: [{name: a, resources: {requests: {ephemeral-storage: 201Gi}}}]": {
			"spec.containers[*].resources",
		},
		"containers: [{name: a, resources: {requests: {ephemeral-storage: 200Gi}}}]": nil,
		"resources: {limits: {memory: 1Gi}}\ncontainers: [{name: a, resources: {claims: [{}] }}]": {
			"spec.containers[0].resources.claims",
		},
	})
}

func TestCheckOfContainers(t *testing.T) {
	checkCases(t, fullConfig, map[string][]string{
		"containers: [{name: a, imagePullPolicy: Never}]": {
			"spec.containers[0].imagePullPolicy",
		},
		"containers: [{name: a, imagePullPolicy: IfNotPresent}]": nil,
		"containers: [{name: a, image: " + strings.Repeat("x", 256) +
			"}]": {"spec.containers[0].image"},
		"containers: [{name: a, securityContext: {privileged: true}}]": {
			"spec.containers[0].securityContext.privileged",
		},
		"containers: [{name: a, securityContext: {privileged: false}}]":                              nil,
		"containers: [{name: a, securityContext: {allowPrivilegeEscalation: false}}]":                nil,
		"containers: [{name: a, securityContext: {allowPrivilegeEscalation: true}}]":                 nil,
		"containers: [{name: a, securityContext: {capabilities: {add: [SYS_PTRACE], drop: [ALL]}}}]": nil,
		"containers: [{name: a, securityContext: {capabilities: {add: [NET_ADMIN]}}}]": {
			"spec.containers[0].securityContext.capabilities.add[0]",
		},
		"containers: [{name: a, securityContext: {capabilities: {add: [CAP_NET_BIND_SERVICE, CHOWN, SYS_ADMIN], drop: " +
			"[ALL]}}}]": {
			"spec.containers[0].securityContext.capabilities.add[2]",
		},
		"containers: [{name: a, securityContext: {procMount: Unmasked}}]": {
			"spec.containers[0].securityContext.procMount",
		},
		"containers: [{name: a, ports: [{containerPort: 1, hostPort: 2}]}]": {
			"spec.containers[0].ports[0].hostPort",
		},
		"containers: [{name: a, ports: [{containerPort: 1, hostPort: 1}]}]": nil,
		"containers: [{name: a, ports: [{containerPort: 1, protocol: SCTP}]}]": {
			"spec.containers[0].ports[0].protocol",
		},
		"containers: [{name: a, ports: [{containerPort: 1, hostIP: 1.2.3.4}]}]": {
			"spec.containers[0].ports[0].hostIP",
		},
		"containers: [{name: a, ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}]}]":             nil,
		"containers: [{name: a, lifecycle: {stopSignal: SIGINT}}]":                                              nil,
		"containers: [{name: a, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}]": nil,
		"containers: [{name: a, terminationMessagePath: /x}]":                                                   nil,
		"containers: [{name: a, terminationMessagePolicy: FallbackToLogsOnError}]":                              nil,
		"containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1, ephemeral-storage: 1Gi}}}]": {
			"spec.containers[0].resources.limits.nvidia.com/gpu",
		},
		"containers: [{name: a, resources: {limits: {memory: 5Mi}}}]":  {"spec.containers[0].resources.limits.memory"},
		"containers: [{name: a, resizePolicy: [{resourceName: cpu}]}]": nil,
	})
}

func TestCheckOfVariables(t *testing.T) {
	env := func(list string) string { return "containers: [{name: a, env: [" + list + "]}]" }
	const (
		name   = "{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}"
		secret = "{name: S, valueFrom: {secretKeyRef: {name: s, key: k}}}"
	)
	at := "spec.containers[0].env[0].valueFrom."
	checkCases(t, fullConfig, map[string][]string{
		env("{name: A, value: b}"): nil,
		env(name):                  nil,
		env(secret):                nil,
		env("{name: A, valueFrom: {configMapKeyRef: {name: s, key: k}}}"):       nil,
		env("{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}"): nil,
		env("{name: A, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}"):     nil,
		env("{name: A, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}"):     nil,
		env(
			"{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}",
		): {at + "fileKeyRef"},
		env("{name: A, valueFrom: {}}"): {
			"spec.containers[0].env[0].valueFrom",
		},
		env("{name: BURSTLET_POD, value: x}"): {
			"spec.containers[0].env[0].name",
		},
		env("{name: BURSTLET, value: x}"):                nil,
		env(secret + ", {name: URL, value: 'a:$(S)@b'}"): nil,
		env(name + "," + secret + ", {name: URL, value: '$(POD):$(S)'}"): {
			"spec.containers[0].env[2].value",
		},
		env(name + "," + secret + ", {name: U, value: $(S)}, {name: V, value: $(U)$(POD)}"): {
			"spec.containers[0].env[3].value",
		},
		"containers: [{name: a, envFrom: [{configMapRef: {name: s}}, {secretRef: {name: s}}]}]": nil,
		"containers: [{name: a, envFrom: [{prefix: P}]}]": {
			"spec.containers[0].envFrom[0]",
		},
		"containers: [{name: a, command: [run, $(POD)], args: [$(POD), $(NONE)], env: [" + name + "]}]": nil,
		"containers: [{name: a, command: [$(POD)], env: [" + name + "]}]":                               nil,
		"containers: [{name: a, command: [run], args: [a, '--p=$(S)'], env: [" + secret +
			"]}]": {"spec.containers[0].args[1]"},
		"containers: [{name: a, command: [run], args: [a, '--p=$$(S)'], env: [" + secret + "]}]":          nil,
		"initContainers: [{name: b, env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}]": nil,
	})
}

func TestCheckOfVolumes(t *testing.T) {
	mounted := func(volume, mount, more string) string {
		return "volumes: [{name: v, " + volume + "}]\ncontainers: [{name: a, volumeMounts: [{name: v, mountPath: /v" + mount +
			"}]}" + more + "]"
	}
	checkCases(t, fullConfig, map[string][]string{
		mounted("configMap: {name: c}", "", ""):                              nil,
		mounted("secret: {secretName: c}", "", ""):                           nil,
		mounted("downwardAPI: {}", "", ""):                                   nil,
		mounted("projected: {sources: [{serviceAccountToken: {}}]}", "", ""): nil,
		mounted("emptyDir: {}", "", ""):                                      nil,
		mounted("emptyDir: {medium: Memory}", "", ""):                        nil,
		mounted("emptyDir: {medium: HugePages}", "", ""):                     {"spec.volumes[0].emptyDir.medium"},
		mounted("persistentVolumeClaim: {claimName: c}", "", ""):             nil,
		mounted("image: {reference: r}", "", ""):                             {"spec.volumes[0].image"},
		mounted("hostPath: {path: /}", "", ""):                               {"spec.volumes[0].hostPath"},
		mounted("nfs: {server: s, path: /}", "", ""):                         {"spec.volumes[0].nfs"},
		mounted("csi: {driver: d}", "", ""):                                  {"spec.volumes[0].csi"},
		mounted("rbd: {image: i, monitors: []}", "", ""):                     {"spec.volumes[0]"},
		mounted("emptyDir: {}", ", subPath: x", ""):                          nil,
		mounted("emptyDir: {}", ", subPathExpr: x", ""):                      nil,
		"volumes: [{name: v, emptyDir: {}}]\ncontainers: [{name: a, volumeMounts: [{name: v, mountPath: /v, subPath: x}, {name: v, mountPath: /v/w}]}]": {
			"spec.containers[0].volumeMounts[0].subPath",
		},
		mounted("emptyDir: {}", ", mountPropagation: Bidirectional", ""): {
			"spec.containers[0].volumeMounts[0].mountPropagation",
		},
		mounted("emptyDir: {}", ", mountPropagation: None", ""): nil,
		mounted("emptyDir: {}", ", recursiveReadOnly: Enabled", ""): {
			"spec.containers[0].volumeMounts[0].recursiveReadOnly",
		},
		mounted("emptyDir: {}", "", ", {}, {}, {}, {}, {}, {}, {}"):           nil,
		mounted("emptyDir: {}", "", ", {}, {}, {}, {}, {}, {}, {}, {}"):       {"spec.containers"},
		mounted("emptyDir: {sizeLimit: 300Gi}", "", ""):                       {"spec.containers[*].resources"},
		"containers: [{name: a, volumeDevices: [{name: v, devicePath: /d}]}]": {"spec.containers[0].volumeDevices"},
	})
}

// What a node lacks is named, with the field of its configuration.
func TestCheckNamesWhatTheNodeLacks(t *testing.T) {
	mount := "\ncontainers: [{name: a, volumeMounts: [{name: v, mountPath: /v}]}]"
	roles := bareConfig
	roles.TaskImage = "i"
	for _, tc := range []struct {
		cfg               Config
		text, field, says string
	}{
		{bareConfig, "containers: [{name: a}, {name: b}]", "spec.containers[1]", "backend.ecs.taskImage"},
		{bareConfig, "volumes: [{name: v, configMap: {name: c}}]" + mount, "spec.volumes[0]", "backend.ecs.taskImage"},
		{bareConfig, "volumes: [{name: v, emptyDir: {}}]" + mount, "spec.volumes[0].emptyDir", "backend.ecs.taskImage"},
		{roles, "volumes: [{name: v, secret: {secretName: c}}]" + mount, "spec.volumes[0]", "backend.ecs.executionRoleARN"},
		{
			roles, "volumes: [{name: v, projected: {sources: [{serviceAccountToken: {}}]}}]" + mount, "spec.volumes[0]",
			"backend.ecs.taskRoleARN",
		},
		{bareConfig, "imagePullSecrets: [{name: a}]", "spec.imagePullSecrets", "backend.ecs.executionRoleARN"},
		{
			bareConfig, "containers: [{name: a, envFrom: [{secretRef: {name: s}}]}]", "spec.containers[0].envFrom[0].secretRef",
			"backend.ecs.executionRoleARN",
		},
		{
			bareConfig, "containers: [{name: a, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]",
			"spec.containers[0].env[0].valueFrom.secretKeyRef", "backend.ecs.executionRoleARN",
		},
	} {
		got := Checker(tc.cfg).Check(parsePod(t, tc.text))
		if len(got) != 1 || got[0].Field != tc.field || !strings.Contains(got[0].Why, tc.says) {
			t.Errorf("%s: %v, want %s to name %s", tc.text, got, tc.field, tc.says)
		}
	}
	for _, text := range []string{
		"securityContext: {runAsUser: 0}\nvolumes: [{name: v, emptyDir: {}}]" + mount,
		"volumes: [{name: v, emptyDir: {medium: Memory}}]" + mount,
		"metadata: {annotations: {ecs.burstlet.dev/execution-role-arn: 'arn:aws:iam::123456789012:role/x'}}\nimagePullSecrets: [{name: a}]",
	} {
		if got := fieldsRefused(t, bareConfig, text); got != nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// A supervisor runs probes and hooks of every kind, in every combination.
func TestCheckOfProbesAndHooks(t *testing.T) {
	in := func(list string) string { return "containers: [{name: a, " + list + "}]" }
	every := []string{
		in("livenessProbe: {exec: {command: [a, $(B)]}, periodSeconds: 301, timeoutSeconds: 61, failureThreshold: 11}"),
		in("readinessProbe: {tcpSocket: {port: 1}, successThreshold: 2}, livenessProbe: {httpGet: {port: web}}"),
		in("startupProbe: {grpc: {port: 1}}"), in("startupProbe: {exec: {command: [a]}, failureThreshold: 99}"),
		in("lifecycle: {postStart: {exec: {command: [a]}}, preStop: {sleep: {seconds: 3}}, stopSignal: SIGINT}"),
		"initContainers: [{name: s, restartPolicy: Always, startupProbe: {exec: {command: [a]}}}]",
	}
	for _, text := range every {
		if got := fieldsRefused(t, fullConfig, text); got != nil {
			t.Errorf("%s: %v", text, got)
		}
		if got := fieldsRefused(t, bareConfig, text); got == nil {
			t.Errorf("%s: taken without a supervisor", text)
		}
	}
}

// What a supervisor does is refused without one, naming what to configure.
func TestWithoutASupervisor(t *testing.T) {
	for _, text := range []string{
		"hostAliases: [{ip: 192.0.2.1}]", "dnsConfig: {nameservers: [a]}", "dnsPolicy: None", "securityContext: {fsGroup: 1}",
		"securityContext: {supplementalGroups: [1]}", "securityContext: {supplementalGroupsPolicy: Strict}",
		"containers: [{name: a, livenessProbe: {httpGet: {port: 1}}}]",
		"volumes: [{name: v, emptyDir: {medium: Memory}}]\ncontainers: [{name: a, volumeMounts: [{name: v, mountPath: /v, subPath: x}]}]",
		"containers: [{name: a, env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}]",
		"containers: [{name: a, terminationMessagePath: /x}]", "securityContext: {runAsNonRoot: true}",
		"securityContext: {runAsGroup: 6}",
		"containers: [{name: a, command: [$(POD)], env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]",
		"containers: [{name: a, securityContext: {allowPrivilegeEscalation: false}}]",
	} {
		got := Checker(bareConfig).Check(parsePod(t, text))
		if len(got) != 1 || !strings.Contains(got[0].Why, "backend.ecs.taskImage") {
			t.Errorf("%s: %v", text, got)
		}
		if got := fieldsRefused(t, fullConfig, text); got != nil {
			t.Errorf("%s, with a supervisor: %v", text, got)
		}
	}
}
