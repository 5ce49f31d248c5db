package taskdef

import (
	"regexp"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
)

// impossible are the rows of ecs-fargate.md section 2 that say X: what Fargate cannot
// do at all, each by a pod that asks for it.
var impossible = map[string][]string{
	"ephemeralContainers":           {"ephemeralContainers: [{name: b, image: i}]"},
	"hostIPC, hostPID, hostNetwork": {"hostIPC: true", "hostPID: true", "hostNetwork: true"},
	"hostUsers: false":              {"hostUsers: false"},
	"hostPath":                      {"volumes: [{name: v, hostPath: {path: /}}]"},
	"the real host name":            {"setHostnameAsFQDN: true", "hostnameOverride: x"},
	"os: windows":                   {"os: {name: windows}"},
	"resourceClaims": {
		"resourceClaims: [{name: c}]", "containers: [{name: a, resources: {claims: [{name: c}]}}]",
	},
	"sysctls that are not allowed": {"securityContext: {sysctls: [{name: vm.max_map_count}]}"},
	"seccomp, AppArmor: Localhost, custom": {
		"securityContext: {seccompProfile: {type: Localhost}}",
		"containers: [{name: a, securityContext: {appArmorProfile: {type: Localhost}}}]",
	},
	"seLinux": {
		"securityContext: {seLinuxOptions: {level: s1}}", "securityContext: {seLinuxChangePolicy: Recursive}",
		"containers: [{name: a, securityContext: {seLinuxOptions: {type: spc_t}}}]",
	},
	"windowsOptions": {
		"securityContext: {windowsOptions: {hostProcess: true}}",
		"containers: [{name: a, securityContext: {windowsOptions: {hostProcess: true}}}]",
	},
	"terminationGracePeriodSeconds > 120": {"terminationGracePeriodSeconds: 121"},
	"more than 10 containers":             {"containers: [{name: i}, {}, {}, {}, {}, {}, {}, {}, {}]"},
	"imagePullPolicy: Never":              {"containers: [{name: a, imagePullPolicy: Never}]"},
	"SCTP, another host port": {
		"containers: [{name: a, ports: [{containerPort: 1, protocol: SCTP}, {containerPort: 2, hostPort: 3}]}]",
	},
	"hugepages, GPUs, extended resources": {
		"containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}, requests: {hugepages-2Mi: 2Mi}}}]",
		"resources: {limits: {hugepages-2Mi: 2Mi}}", "volumes: [{name: v, emptyDir: {medium: HugePages}}]",
	},
	"capabilities beyond Fargate's": {"containers: [{name: a, securityContext: {capabilities: {add: [NET_ADMIN]}}}]"},
	"privileged":                    {"containers: [{name: a, securityContext: {privileged: true}}]"},
	"procMount":                     {"containers: [{name: a, securityContext: {procMount: Unmasked}}]"},
	"a part of a volume on a root file system that is read-only": {
		"volumes: [{name: v, emptyDir: {}}]\ncontainers: [{name: a, securityContext: {readOnlyRootFilesystem: true}, volumeMounts: [{name: v, mountPath: /v, subPath: x}, {name: v, mountPath: /w, subPathExpr: x}]}]",
	},
	"mountPropagation": {
		"containers: [{name: a, volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]}]",
	},
	"recursiveReadOnly": {
		"containers: [{name: a, volumeMounts: [{name: v, mountPath: /v, recursiveReadOnly: Enabled}]}]",
	},
	"volumeDevices": {"containers: [{name: a, volumeDevices: [{name: v, devicePath: /d}]}]"},
	"csi inline, nfs, gitRepo and more": {
		"volumes: [{name: v, csi: {driver: d}}]", "volumes: [{name: v, nfs: {server: s, path: /}}]",
		"volumes: [{name: v, rbd: {image: i, monitors: []}}]",
	},
	"sizes beyond Fargate's": {"containers: [{name: a, resources: {requests: {cpu: 33}}}]"},
}

// notDone are the others that are refused, at most ten, each with its reason.
var notDone = map[string][]string{
	"runtimeClassName: Fargate has one runtime": {"runtimeClassName: x"},
	"restartPolicy and rules of single containers: the task is what is restarted": {
		"containers: [{name: a, restartPolicy: Never}]", "containers: [{name: a, restartPolicyRules: [{action: Restart}]}]",
	},
	"hostIP: a task has one address": {
		"containers: [{name: a, ports: [{containerPort: 1, hostIP: 192.0.2.1}]}]",
	},
	"fileKeyRef: the variables are read on the node, the file is in the task": {
		"containers: [{name: a, env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]}]",
	},
	"a Secret's value in command or args: it would stand in the clear": {
		"containers: [{name: a, command: [run, $(S)], args: [$(S)], env: [{name: S, valueFrom: {secretKeyRef: {name: s, " +
			"key: k}}}]}]",
	},
	"a variable of a Secret and of the pod: neither place may hold it": {
		"containers: [{name: a, env: [{name: S, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: P, valueFrom: " +
			"{fieldRef: {fieldPath: metadata.name}}}, {name: X, value: $(S)$(P)}]}]",
	},
	"a volume from an image: nothing mounts one": {"volumes: [{name: v, image: {reference: r}}]"},
	"names of burstlet's own": {
		"containers: [{name: burstlet-init}]", "containers: [{name: a, env: [{name: BURSTLET_POD, value: x}]}]",
	},
	"memory below what ECS takes, image names that are longer": {
		"containers: [{name: a, resources: {limits: {memory: 5Mi}}}]",
		"containers: [{name: a, image: " + strings.Repeat("x", ecsconfig.MaxImage+1) + "}]",
	},
	"a source that is newer than this backend": {
		"containers: [{name: a, env: [{name: A, valueFrom: {}}]}]", "containers: [{name: a, envFrom: [{prefix: P}]}]",
	},
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// Fields are refused because Fargate cannot, and for at most ten other reasons.
func TestWhatIsRefusedIsImpossibleOrNamed(t *testing.T) {
	if len(notDone) > 10 {
		t.Errorf("%d reasons beside what Fargate cannot do", len(notDone))
	}
	known := map[string]bool{}
	for _, rows := range []map[string][]string{impossible, notDone} {
		for name, pods := range rows {
			for _, text := range pods {
				got := fieldsRefused(t, fullConfig, text)
				if len(got) == 0 {
					t.Errorf("%s: %s is taken: mend the list", name, text)
				}
				for _, field := range got {
					known[index.ReplaceAllString(field, "[]")] = true
				}
			}
		}
	}
	for _, rules := range []struct {
		prefix string
		rules  map[string]rule
	}{{"spec.", podRules}, {"spec.securityContext.", podSecurityRules}, {"spec.containers[].", containerRules}, {
		"spec.containers[].securityContext.", securityRules,
	}} {
		for name, r := range rules.rules {
			if r.who == refused && !known[rules.prefix+name] {
				t.Errorf("%s%s is refused, and stands in neither list", rules.prefix, name)
			}
		}
	}
}
