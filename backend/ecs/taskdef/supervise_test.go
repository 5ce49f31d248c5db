package taskdef

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// supervisedPod has something of all that a supervisor does.
const supervisedPod = `metadata: {name: web-0, namespace: shop, uid: u}
hostname: web-0
subdomain: web
hostAliases: [{ip: 192.0.2.1, hostnames: [a, b]}]
dnsPolicy: ClusterFirst
dnsConfig: {nameservers: [192.0.2.53], searches: [example.com], options: [{name: ndots, value: "2"}, {name: edns0}, {name: rotate, value: ""}]}
terminationGracePeriodSeconds: 120
shareProcessNamespace: true
securityContext: {fsGroup: 7, supplementalGroups: [8, 9], supplementalGroupsPolicy: Strict, runAsNonRoot: true}
volumes: [{name: v, emptyDir: {}}, {name: c, configMap: {name: c}}]
containers:
- name: app
  image: i
  args: ["--ip=$(IP)"]
  ports: [{name: web, containerPort: 8080}]
  env: [{name: IP, value: x}, {name: HOME, value: /h}]
  securityContext: {runAsGroup: 6, allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [NET_BIND_SERVICE, SYS_PTRACE]}}
  startupProbe: {exec: {command: [check, "$(HOME)", "$(NONE)", "$$(HOME)"]}, failureThreshold: 30, periodSeconds: 2}
  livenessProbe: {httpGet: {port: web, path: /live, scheme: HTTPS, httpHeaders: [{name: A, value: b}]}, terminationGracePeriodSeconds: 5}
  readinessProbe: {grpc: {port: 9, service: s}, successThreshold: 2}
  lifecycle: {postStart: {tcpSocket: {port: 1}}, preStop: {sleep: {seconds: 3}}, stopSignal: SIGUSR1}
  terminationMessagePath: /tmp/last
  terminationMessagePolicy: FallbackToLogsOnError
  volumeMounts:
  - {name: v, mountPath: /a, subPath: x}
  - {name: v, mountPath: /b, subPathExpr: "$(IP)/y"}
  - {name: v, mountPath: /ro, subPath: z, readOnly: true}
  - {name: v, mountPath: /whole}
  - {name: c, mountPath: /etc/app.conf, subPath: app.conf}
`

func TestWhatASupervisorIsTold(t *testing.T) {
	pod := parsePod(t, supervisedPod)
	cfg := fullConfig
	cfg.ClusterDNS, cfg.ClusterDomain = []string{"10.96.0.10"}, "cluster.local"
	if refused := Checker(cfg).Check(pod); len(refused) > 0 {
		t.Fatal(refused)
	}
	spec := resolved(pod, 0)
	spec.Containers[0].Container.VolumeMounts[1].SubPath = "what it became"
	def, err := definitionOf(cfg, spec, refsOf(spec), imagesFor(spec))
	must(t, err)
	run, err := runOf(cfg, spec, refsOf(spec), imagesFor(spec), *def.Family)
	must(t, err)
	i := slices.IndexFunc(def.ContainerDefinitions, func(c types.ContainerDefinition) bool { return *c.Name == "app" })
	app := def.ContainerDefinitions[i]
	var got intask.Spec
	must(t, json.Unmarshal([]byte(variableOf(app.Environment, intask.EnvSupervise)), &got))
	want := intask.Spec{
		Container: "app", Kept: []string{"HOME"}, Grace: 117, StopSignal: "SIGUSR1", ImageStopSignal: "SIGQUIT",
		Identity: intask.Identity{
			GID: new(int64(6)), ImageUser: "nobody", Groups: []int64{8, 9, 7}, StrictGroups: true, NonRoot: true,
			Drop: []string{"ALL"}, Add: []string{"NET_BIND_SERVICE", "SYS_PTRACE"}, NoNewPrivileges: true,
		},
		Startup: &intask.Probe{
			Handler: intask.Handler{Exec: []string{"check", "/h", "$(NONE)", "$(HOME)"}}, FailureThreshold: 30, Period: 2,
		},
		Liveness: &intask.Probe{Grace: new(int64(5)), Handler: intask.Handler{HTTP: &intask.HTTPGet{
			Scheme: "HTTPS", Port: 8080, Path: "/live", Headers: []intask.Header{{Name: "A", Value: "b"}},
		}}},
		Readiness: &intask.Probe{Handler: intask.Handler{GRPC: &intask.GRPC{Port: 9, Service: "s"}}, SuccessThreshold: 2},
		PostStart: &intask.Handler{TCP: &intask.TCPSocket{Port: 1}}, PreStop: &intask.Handler{Sleep: new(int64(3))},
		Hosts: &intask.Hosts{Aliases: []intask.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"a", "b"}}}},
		DNS: &intask.DNS{
			Policy: intask.DNSCluster, ClusterServers: []string{"10.96.0.10"}, Servers: []string{"192.0.2.53"},
			Searches:        []string{"example.com"},
			ClusterSearches: []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"},
			Options:         []string{"ndots:2", "edns0", "rotate"},
		},
		SubPaths: []intask.SubPath{
			{MountPath: "/a", Volume: "/burstlet/sub/0", Path: "x"},
			{MountPath: "/b", Volume: "/burstlet/sub/0", Path: "$(IP)/y", Expand: true},
			{MountPath: "/ro", Volume: "/burstlet/sub/1", Path: "z", ReadOnly: true},
			{MountPath: "/etc/app.conf", Volume: "/burstlet/sub/2", Path: "app.conf", ReadOnly: true},
		},
		MessagePath: "/tmp/last", MessageFromLogs: true,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	var mounts []string
	for _, m := range app.MountPoints {
		line := *m.SourceVolume + " " + *m.ContainerPath
		if m.ReadOnly != nil && *m.ReadOnly {
			line += " ro"
		}
		mounts = append(mounts, line)
	}
	wantMounts := []string{
		"v0 /burstlet/sub/0", "v0 /burstlet/sub/1 ro", "v0 /whole", "v1 /burstlet/sub/2 ro", "burstlet-bin /burstlet/bin ro",
		"burstlet-run-app /burstlet/run",
	}
	if d := cmp.Diff(wantMounts, mounts); d != "" {
		t.Error(d)
	}
	if *app.User != "0:0" || *app.StopTimeout != 120 || *app.HealthCheck.StartPeriod != 60 ||
		strings.Join(app.Command, " ") != "supervise -- /entry --ip=x" ||
		!slices.Equal(app.LinuxParameters.Capabilities.Add, []string{"SYS_PTRACE"}) ||
		app.LinuxParameters.Capabilities.Drop != nil || !run.EnableExecuteCommand {
		t.Errorf("%s", pretty(t, app))
	}
	if host := variableOf(
		run.Overrides.ContainerOverrides[len(run.Overrides.ContainerOverrides)-1].Environment, intask.EnvHostname,
	); host != "web-0 web-0.web.shop.svc.cluster.local" {
		t.Errorf("host name %q", host)
	}
}

func variableOf(env []types.KeyValuePair, name string) string {
	for _, e := range env {
		if *e.Name == name {
			return *e.Value
		}
	}
	return ""
}

func TestEmptyDirsInMemoryGetTheGroup(t *testing.T) {
	tmpfs := []types.Tmpfs{
		{ContainerPath: aws.String("/cache")},
		{ContainerPath: aws.String("/seen"), MountOptions: []string{"ro"}},
	}
	grouped := &corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{FSGroup: new(int64(7))}}
	for name, tc := range map[string]struct {
		pod     *corev1.PodSpec
		volumes []types.Tmpfs
		want    *intask.InMemory
	}{
		"those that it may write to":  {grouped, tmpfs, &intask.InMemory{Group: 7, Paths: []string{"/cache"}}},
		"no volume that it may write": {grouped, tmpfs[1:], nil},
		"no group":                    {&corev1.PodSpec{}, tmpfs, nil},
	} {
		if d := cmp.Diff(tc.want, inMemoryOf(tc.pod, tc.volumes)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// The texts in the place of addresses are the contract's.
func TestLateAddressesAreTheContracts(t *testing.T) {
	for late, want := range map[string]string{
		intask.LatePodIP: backend.LatePodIP, intask.LatePodIPs: backend.LatePodIPs, intask.LateHostIP: backend.LateHostIP,
		intask.LateHostIPs: backend.LateHostIPs,
	} {
		if late != want {
			t.Errorf("%q and %q", late, want)
		}
	}
}

// What differs between pods in what they run stands in the overrides.
func TestWordsOfAPodsOwn(t *testing.T) {
	own, shared := backend.OriginPod, backend.OriginShared
	for name, tc := range map[string]struct {
		origins backend.Origins
		defined string
		own     string
	}{
		"nothing": {backend.Origins{}, "supervise -- run a", ""},
		"an argument": {
			backend.Origins{Command: []backend.Origin{shared}, Args: []backend.Origin{own}},
			"supervise -- run",
			"supervise -- run a",
		},
		"the program": {
			backend.Origins{Command: []backend.Origin{own}, Args: []backend.Origin{shared}},
			"supervise --",
			"supervise -- run a",
		},
	} {
		spec := backend.ContainerSpec{
			Container: corev1.Container{Name: "app", Command: []string{"run"}, Args: []string{"a"}}, Origins: tc.origins,
		}
		got, err := supervisedWords(spec, nil)
		must(t, err)
		if strings.Join(got.command, " ") != tc.defined || strings.Join(got.own, " ") != tc.own ||
			got.entry[0] != intask.Supervisor {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
