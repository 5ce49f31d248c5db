package ecs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/backend"
)

// Every field of the API is classified, and nothing else is: a new version of the
// API fails here until somebody decides what becomes of its fields.
func TestEveryFieldHasARule(t *testing.T) {
	for _, tc := range []struct {
		of    any
		rules map[string]rule
	}{
		{corev1.PodSpec{}, podRules},
		{corev1.PodSecurityContext{}, podSecurityRules},
		{corev1.Container{}, containerRules},
		{corev1.SecurityContext{}, securityRules},
	} {
		typ := reflect.TypeOf(tc.of)
		fields := map[string]bool{}
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			fields[name] = true
			r, ok := tc.rules[name]
			switch {
			case !ok:
				t.Errorf("%s.%s has no rule", typ.Name(), name)
			case r.who == refused && r.why == "":
				t.Errorf("%s.%s is refused without a why", typ.Name(), name)
			case (r.who == partly) != (r.check != nil):
				t.Errorf("%s.%s: a check is for partly, and partly has one", typ.Name(), name)
			}
		}
		for name := range tc.rules {
			if !fields[name] {
				t.Errorf("%s has no field %s", typ.Name(), name)
			}
		}
	}
}

// Every refused field is refused by name when it is set.
func TestRefusedFieldsAreRefused(t *testing.T) {
	for _, tc := range []struct {
		of    any
		rules map[string]rule
	}{{corev1.PodSpec{}, podRules}, {corev1.PodSecurityContext{}, podSecurityRules}, {corev1.Container{}, containerRules}, {corev1.SecurityContext{}, securityRules}} {
		typ := reflect.TypeOf(tc.of)
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			v := reflect.New(typ).Elem()
			set(v.Field(i))
			got := apply("x", v, map[string]rule{name: tc.rules[name]})
			want := tc.rules[name].who == refused
			if refusedNow := len(got) == 1 && got[0].Field == "x."+name; tc.rules[name].who != partly && refusedNow != want {
				t.Errorf("%s.%s: refused %v, want %v", typ.Name(), name, got, want)
			}
			if got := apply("x", v, nil); len(got) != 1 {
				t.Errorf("%s.%s: without a rule: %v", typ.Name(), name, got)
			}
		}
	}
}

// set gives a field some value other than zero.
func set(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if v.Elem().Kind() == reflect.Bool {
			v.Elem().SetBool(true)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64, reflect.Int32:
		v.SetInt(1)
	default: // a struct
		set(v.Field(0))
	}
}

func TestCheck(t *testing.T) {
	for text, want := range map[string][]string{
		"dnsPolicy: ClusterFirst\nenableServiceLinks: true\nserviceAccountName: default\nautomountServiceAccountToken: false\n" +
			"schedulerName: s\nsecurityContext: {}\ntolerations: [{operator: Exists}]\npriority: 1\nrestartPolicy: Always\n": nil,
		"dnsPolicy: None":                    {"spec.dnsPolicy"},
		"volumes: [{name: a}]":               {"spec.volumes"},
		"hostNetwork: true\nhostPID: true":   {"spec.hostNetwork", "spec.hostPID"},
		"hostUsers: false":                   {"spec.hostUsers"},
		"hostUsers: true":                    nil,
		"os: {name: linux}":                  nil,
		"os: {name: windows}":                {"spec.os"},
		"terminationGracePeriodSeconds: 120": nil,
		"terminationGracePeriodSeconds: 121": {"spec.terminationGracePeriodSeconds"},
		"imagePullSecrets: [{name: a}]":      {"spec.imagePullSecrets"},
		"setHostnameAsFQDN: false":           nil,
		"securityContext: {fsGroup: 1, sysctls: [{name: a, value: b}]}":                                         {"spec.securityContext.fsGroup", "spec.securityContext.sysctls"},
		"securityContext: {seccompProfile: {type: Unconfined}}":                                                 {"spec.securityContext.seccompProfile"},
		"securityContext: {runAsNonRoot: true}":                                                                 {"spec.containers[0].securityContext.runAsNonRoot"},
		"securityContext: {runAsNonRoot: true, runAsUser: 0}":                                                   {"spec.containers[0].securityContext.runAsNonRoot"},
		"securityContext: {runAsNonRoot: true, runAsUser: 5, runAsGroup: 6}":                                    nil,
		"securityContext: {runAsGroup: 6}":                                                                      {"spec.containers[0].securityContext.runAsGroup"},
		"initContainers: [{name: b, image: i, restartPolicy: Always}]":                                          {"spec.initContainers[0].restartPolicy"},
		"containers: [{name: a, image: i}, {name: b, image: i}]":                                                {"spec.containers[1]"},
		"initContainers: [{name: i}, {}, {}, {}, {}, {}, {}, {}, {}, {}]":                                       {"spec.initContainers"},
		"containers: [{name: a, imagePullPolicy: Never}]":                                                       {"spec.containers[0].imagePullPolicy"},
		"containers: [{name: a, imagePullPolicy: IfNotPresent}]":                                                nil,
		"containers: [{name: a, securityContext: {privileged: true}}]":                                          {"spec.containers[0].securityContext.privileged"},
		"containers: [{name: a, securityContext: {privileged: false}}]":                                         nil,
		"containers: [{name: a, securityContext: {allowPrivilegeEscalation: false}}]":                           {"spec.containers[0].securityContext.allowPrivilegeEscalation"},
		"containers: [{name: a, securityContext: {capabilities: {add: [SYS_PTRACE], drop: [ALL]}}}]":            nil,
		"containers: [{name: a, securityContext: {capabilities: {add: [NET_ADMIN]}}}]":                          {"spec.containers[0].securityContext.capabilities.add"},
		"containers: [{name: a, securityContext: {procMount: Unmasked}}]":                                       {"spec.containers[0].securityContext.procMount"},
		"containers: [{name: a, ports: [{containerPort: 1, hostPort: 2}]}]":                                     {"spec.containers[0].ports[0].hostPort"},
		"containers: [{name: a, ports: [{containerPort: 1, hostPort: 1}]}]":                                     nil,
		"containers: [{name: a, ports: [{containerPort: 1, protocol: SCTP}]}]":                                  {"spec.containers[0].ports[0].protocol"},
		"containers: [{name: a, ports: [{containerPort: 1, hostIP: 1.2.3.4}]}]":                                 {"spec.containers[0].ports[0].hostIP"},
		"containers: [{name: a, ports: [{containerPort: 1}, {containerPort: 1, protocol: UDP}]}]":               {"spec.containers[0].ports[1].containerPort"},
		"containers: [{name: a, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]":               {"spec.containers[0].env[0].valueFrom.secretKeyRef"},
		"containers: [{name: a, env: [{name: A, valueFrom: {configMapKeyRef: {name: s, key: k}}}]}]":            {"spec.containers[0].env[0].valueFrom.configMapKeyRef"},
		"containers: [{name: a, env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]":          {"spec.containers[0].env[0].valueFrom.fieldRef"},
		"containers: [{name: a, env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}]}]":          {"spec.containers[0].env[0].valueFrom.fieldRef"},
		"containers: [{name: a, env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]}]":      {"spec.containers[0].env[0].valueFrom.resourceFieldRef"},
		"containers: [{name: a, env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]}]":  {"spec.containers[0].env[0].valueFrom.fileKeyRef"},
		"containers: [{name: a, env: [{name: A, valueFrom: {}}]}]":                                              {"spec.containers[0].env[0].valueFrom"},
		"containers: [{name: a, env: [{name: A, value: b}]}]":                                                   nil,
		"containers: [{name: a, envFrom: [{configMapRef: {name: s}}, {prefix: P}]}]":                            {"spec.containers[0].envFrom[0].configMapRef", "spec.containers[0].envFrom[1]"},
		"initContainers: [{name: b, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]":           {"spec.initContainers[0].env[0].valueFrom.secretKeyRef"},
		"ephemeralContainers: [{name: b, image: i}]":                                                            {"spec.ephemeralContainers"},
		"containers: [{name: a, livenessProbe: {exec: {command: [a]}}, resizePolicy: [{resourceName: cpu}]}]":   nil,
		"containers: [{name: a, env: [{name: BURSTLET_POD, value: x}]}]":                                        {"spec.containers[0].env[0].name"},
		"containers: [{name: a, envFrom: [{secretRef: {name: s}}]}]":                                            {"spec.containers[0].envFrom[0].secretRef"},
		"containers: [{name: a, lifecycle: {stopSignal: SIGINT}}]":                                              {"spec.containers[0].lifecycle.stopSignal"},
		"containers: [{name: a, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}]": nil,
		"containers: [{name: a, terminationMessagePath: /x, terminationMessagePolicy: FallbackToLogsOnError}]": {
			"spec.containers[0].terminationMessagePath", "spec.containers[0].terminationMessagePolicy",
		},
		"containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1, ephemeral-storage: 1Gi}}}]": {
			"spec.containers[0].resources.limits.ephemeral-storage", "spec.containers[0].resources.limits.nvidia.com/gpu",
		},
		"containers: [{name: a, resources: {limits: {memory: 5Mi}}}]":       {"spec.containers[0].resources.limits.memory"},
		"containers: [{name: a, resources: {requests: {cpu: 33}}}]":         {"spec.containers[*].resources"},
		"containers: [{name: a, resources: {requests: {memory: 300Gi}}}]":   {"spec.containers[*].resources"},
		"containers: [{name: a, volumeMounts: [{name: v, mountPath: /x}]}]": {"spec.containers[0].volumeMounts"},
	} {
		t.Run(text, func(t *testing.T) {
			pod := &corev1.Pod{}
			if !strings.Contains("\n"+text, "\ncontainers:") {
				text += "\ncontainers: [{name: a, image: i}]"
			}
			if err := yaml.UnmarshalStrict([]byte("spec:\n  "+strings.ReplaceAll(text, "\n", "\n  ")), pod); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range Check(pod) {
				got = append(got, r.Field)
				if r.Why == "" {
					t.Errorf("%s: no why", r.Field)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
		})
	}
}

// The whys of addresses and of Secrets tell what cannot change from what is yet
// to come.
func TestWhysOfVariables(t *testing.T) {
	for path, want := range map[string]string{
		"status.podIP": whyAddressEnv, "status.podIPs": whyAddressEnv, "status.hostIP": whyAddressEnv, "status.hostIPs": whyAddressEnv,
		"metadata.name": whyFieldEnv, "metadata.labels['a']": whyFieldEnv, "spec.nodeName": whyFieldEnv,
	} {
		_, got := valueSource(&corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}})
		if got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// A pod that was let through all the same puts no Secret into a definition.
func TestSecretsNeverReachADefinition(t *testing.T) {
	for name, c := range map[string]corev1.Container{
		"valueFrom": {Env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}}}},
		"envFrom":   {EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
			resolved := corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: "hidden"}}}
			_, err := definitionOf(Config{}, backend.LaunchSpec{Pod: pod, Containers: []backend.ContainerSpec{{Pod: pod, Container: resolved}}})
			if backend.Class(err) != "Unsupported" || strings.Contains(err.Error(), "hidden") {
				t.Errorf("%s: %v", backend.Class(err), err)
			}
		})
	}
}
