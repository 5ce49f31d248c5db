package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/burstlet/burstlet/test/kit/need"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// honoured is a pod, a script of its container, and lines that it then prints, in which
// NAMESPACE is the pod's.
type honoured struct {
	name   string
	change func(*corev1.Pod)
	script string
	says   []string
}

func (h honoured) run(l *life) {
	pod := l.pod(shell(h.script))
	if h.change != nil {
		h.change(pod)
	}
	l.create(pod)
	l.until("Ready", isReady)
	var lines []string
	for _, line := range h.says {
		lines = append(lines, strings.ReplaceAll(line, "NAMESPACE", l.namespace))
	}
	l.says("app", lines...)
}

func honouredRows() []row[*hostLife] {
	var rows []row[*hostLife]
	for _, h := range slices.Concat(honouredPods, honouredSecurity) {
		rows = append(rows, row[*hostLife]{h.name, func(l *hostLife) { h.run(l.life) }})
	}
	return rows
}

func secured(sc corev1.SecurityContext) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].SecurityContext = &sc }
}

func podSecured(sc corev1.PodSecurityContext) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.SecurityContext = &sc }
}

func spec(f func(*corev1.PodSpec)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { f(&pod.Spec) }
}

// status prints a field of the shell's own /proc/self/status.
func status(field string) string {
	return fmt.Sprintf("echo %s $(sed -n 's/^%[1]s://p' /proc/self/status)", field)
}

const whoAmI = `echo user $(id -u) group $(id -g) groups $(sed -n 's/^Groups://p' /proc/self/status)`

// honouredSecurity are security contexts, each seen by a process in the container.
var honouredSecurity = []honoured{
	{
		"users and groups", podSecured(corev1.PodSecurityContext{
			RunAsUser: new(int64(1000)), RunAsGroup: new(int64(3000)), FSGroup: new(int64(2000)),
			SupplementalGroups: []int64{4000},
		}),
		whoAmI,
		[]string{"user 1000 group 3000 groups 2000 3000 4000"},
	},
	{"a container's own user", func(pod *corev1.Pod) {
		podSecured(
			corev1.PodSecurityContext{RunAsUser: new(int64(1000)), RunAsGroup: new(int64(3000)), RunAsNonRoot: new(true)},
		)(pod)
		secured(corev1.SecurityContext{RunAsUser: new(int64(1001))})(pod)
	}, whoAmI, []string{"user 1001 group 3000 groups 3000"}},
	{"capabilities of every container", nil, status("CapEff"), []string{"CapEff 00000000a80425fb"}},
	{"capabilities added and dropped", secured(corev1.SecurityContext{Capabilities: &corev1.Capabilities{
		Add: []corev1.Capability{"NET_ADMIN"}, Drop: []corev1.Capability{"CHOWN"},
	}}), status("CapEff"), []string{"CapEff 00000000a80435fa"}},
	{"all capabilities dropped but one", secured(corev1.SecurityContext{Capabilities: &corev1.Capabilities{
		Add: []corev1.Capability{"CAP_NET_BIND_SERVICE"}, Drop: []corev1.Capability{"ALL"},
	}}), status("CapEff"), []string{"CapEff 0000000000000400"}},
	{"seccomp is unconfined by default", nil, status("Seccomp"), []string{"Seccomp 0"}},
	{"seccomp of the runtime", podSecured(corev1.PodSecurityContext{
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}), status("Seccomp"), []string{"Seccomp 2"}},
	{"seccomp of the host", secured(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{
		Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("profiles/no-mkdir.json"),
	}}), status("Seccomp") + "; mkdir /tmp/made || echo denied", []string{"Seccomp 2", "denied"}},
	{
		"read-only root", secured(corev1.SecurityContext{ReadOnlyRootFilesystem: new(true)}),
		"touch /file || echo root denied; echo x >>/etc/hosts || echo hosts denied; touch /dev/shm/file && echo shm allowed",
		[]string{"root denied", "hosts denied", "shm allowed"},
	},
	{
		"no privilege escalation", secured(corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}),
		status("NoNewPrivs"),
		[]string{"NoNewPrivs 1"},
	},
	{"privilege escalation by default", nil, status("NoNewPrivs"), []string{"NoNewPrivs 0"}},
	{
		"masked and read-only paths of proc", nil,
		"echo interrupts $(wc -c </proc/interrupts); echo 1 >/proc/sys/net/ipv4/ip_forward || echo sys denied",
		[]string{"interrupts 0", "sys denied"},
	},
	{
		"sysctls, safe and allowed", podSecured(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{
			{Name: "net.ipv4.ip_unprivileged_port_start", Value: "80"},
			{Name: "kernel.shm_rmid_forced", Value: "1"},
			{Name: "net.core.somaxconn", Value: "1234"},
		}}),
		"cd /proc/sys; echo sysctls $(cat net/ipv4/ip_unprivileged_port_start kernel/shm_rmid_forced net/core/somaxconn)",
		[]string{"sysctls 80 1 1234"},
	},
}

// honouredPods are about names, addresses and what containers of a pod share.
var honouredPods = []honoured{
	{"hostname is the pod's name", nil, "echo name $(hostname)", []string{"name subject"}},
	{
		"hostname and subdomain", spec(func(s *corev1.PodSpec) { s.Hostname, s.Subdomain = "web", "shop" }),
		"echo name $(hostname); echo hosts $(grep web /etc/hosts | cut -f2-)",
		[]string{"name web", "hosts web.shop.NAMESPACE.svc.cluster.local web"},
	},
	{
		"hostname as FQDN",
		spec(func(s *corev1.PodSpec) { s.Hostname, s.Subdomain, s.SetHostnameAsFQDN = "web", "shop", new(true) }),
		"echo name $(hostname)",
		[]string{"name web.shop.NAMESPACE.svc.cluster.local"},
	},
	{
		"hostnameOverride", spec(func(s *corev1.PodSpec) { s.HostnameOverride = new("other.test") }), "echo name $(hostname)",
		[]string{"name other.test"},
	},
	{
		"dnsPolicy ClusterFirst", nil, "cat /etc/resolv.conf",
		[]string{
			"nameserver 10.96.0.10",
			"search NAMESPACE.svc.cluster.local svc.cluster.local cluster.local host.test", "options ndots:5",
		},
	},
	{
		"dnsPolicy Default", spec(func(s *corev1.PodSpec) { s.DNSPolicy = corev1.DNSDefault }), "cat /etc/resolv.conf",
		[]string{"nameserver 192.0.2.53", "search host.test", "options timeout:1"},
	},
	{"dnsPolicy None with dnsConfig", spec(func(s *corev1.PodSpec) {
		s.DNSPolicy = corev1.DNSNone
		s.DNSConfig = &corev1.PodDNSConfig{
			Nameservers: []string{"192.0.2.1", "192.0.2.2"}, Searches: []string{"my.test"},
			Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}, {Name: "edns0"}},
		}
	}), "cat /etc/resolv.conf; echo lines $(wc -l </etc/resolv.conf)", []string{
		"nameserver 192.0.2.1", "nameserver 192.0.2.2", "search my.test", "options ndots:2 edns0", "lines 4",
	}},
	{
		"shared process namespace", func(pod *corev1.Pod) {
			pod.Spec.ShareProcessNamespace = new(true)
			pod.Spec.Containers = append(
				pod.Spec.Containers, corev1.Container{Name: "beside", Image: imageOf, Command: []string{"sleep", "4321"}},
			)
		},
		"until ps | grep -q '[s]leep 4321'; do sleep 0.2; done; echo sees the other; echo first $(tr '\\0' ' ' " +
			"</proc/1/cmdline)",
		[]string{"sees the other", "first /bin/sleep 2147483647"},
	},
	{"process namespace of its own", nil, "echo first $(head -c 2 /proc/1/cmdline)", []string{"first sh"}},
	{
		"containers share network and IPC", func(pod *corev1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "beside", Image: imageOf, Command: []string{
				"sh", "-c",
				"mkdir /tmp/www; echo beside >/tmp/www/index.html; touch /dev/shm/shared; exec httpd -f -p 8080 -h /tmp/www",
			}})
		},
		"until wget -qO- 127.0.0.1:8080; do sleep 0.2; done; ls /dev/shm",
		[]string{"beside", "shared"},
	},
}

// hostPods are about pods, where lines do not tell.
var hostPods = []row[*hostLife]{
	{"privileged", privileged},
	{"namespaces of the host", hostNamespaces},
	{"runAsNonRoot", func(l *hostLife) {
		pod := l.create(l.pod(shell(":"), podSecured(corev1.PodSecurityContext{RunAsNonRoot: new(true)})))
		const words = "container has runAsNonRoot and image will run as root"
		l.until("held back", waits("CreateContainerConfigError", words))
		l.event(pod, "Failed", "Error: ", words)
	}},
	{"seccomp profile that is not there", func(l *hostLife) {
		pod := l.create(l.pod(shell(":"), podSecured(corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{
			Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("later/profile.json"),
		}})))
		l.event(pod, "Failed", "Error: ", seccompRoot+"/later/profile.json", "no such file or directory")
		l.h.write(l.T, seccompRoot+"/later/profile.json", `{"defaultAction":"SCMP_ACT_ALLOW"}`)
		l.must(neverRestarted(l.until("Ready once it is there", isReady)))
	}},
	{"AppArmor", withoutAppArmor},
	{"sysctl that is not allowed", func(l *hostLife) {
		rejected("SysctlForbidden", `forbidden sysctl: "kernel.msgmax" not allowlisted`, func(pod *corev1.Pod, _ string) {
			podSecured(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "8192"}}})(pod)
		})(l.life)
	}},
	{"supplementalGroupsPolicy Strict", func(l *hostLife) {
		strict := corev1.SupplementalGroupsPolicyStrict
		l.create(l.pod(shell(whoAmI), podSecured(corev1.PodSecurityContext{
			SupplementalGroupsPolicy: &strict, RunAsUser: new(int64(0)), RunAsGroup: new(int64(3000)),
		})))
		// The image has root in more groups.
		runtime, err := l.h.cri.Status(l.Context(), &runtimeapi.StatusRequest{})
		l.must(err)
		if runtime.GetFeatures().GetSupplementalGroupsPolicy() {
			l.until("Ready, as containerd can do it", isReady)
			l.says("app", "user 0 group 3000 groups 3000")
			return
		}
		l.until("refused, as containerd cannot do it", func(pod *corev1.Pod) error {
			const words = "SupplementalGroupsPolicy=Strict is not supported in this node"
			if pod.Status.Reason == "SupplementalGroupsPolicyNotSupported" && strings.Contains(pod.Status.Message, words) {
				return nil
			}
			return fmt.Errorf("%s %s: %s %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message, states(&pod.Status))
		})
	}},
	{"RestartAllContainers", restartAllContainers},
	{"hostUsers", ownUsers},
	{"hostPort", hostPort},
	{"hostAliases", hostAliases},
	{"RuntimeClass", runtimeClass},
	{"RuntimeClass that is not there", runtimeClassMissing},
	{"RuntimeClass without its handler", runtimeHandlerMissing},
}

// privileged: a container has what the runtime itself has, and the host's devices.
func privileged(l *hostLife) {
	l.create(l.pod(shell(
		status("CapEff")+"; "+status("Seccomp")+
			"; test -w /proc/sys/net && mount -t tmpfs none /mnt && echo mounted; ls /dev | grep -x kmsg",
	),
		secured(corev1.SecurityContext{Privileged: new(true)}), func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Command[2] = "mkdir -p /mnt; " + pod.Spec.Containers[0].Command[2]
		}))
	l.until("Ready", isReady)
	l.says("app", l.outside(status("CapEff")), "Seccomp 0", "mounted", "kmsg")
}

// hostNamespaces: processes are in the host's, and the pod has its address and
// names.
func hostNamespaces(l *hostLife) {
	script := "for n in net pid ipc uts; do echo $n $(readlink /proc/self/ns/$n); done"
	l.create(l.pod(shell(
		script+"; echo name $(hostname); head -1 /etc/hosts; grep "+l.h.Hostname()+" /etc/hosts; cat /etc/resolv.conf",
	),
		spec(func(s *corev1.PodSpec) {
			s.HostNetwork, s.HostPID, s.HostIPC, s.DNSPolicy = true, true, true, corev1.DNSClusterFirstWithHostNet
			s.HostAliases = []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"seven"}}}
		})))
	pod := l.until("Ready", isReady)
	var want []string
	for _, line := range strings.Split(l.outside(script), "\n") {
		if !strings.HasPrefix(line, "uts ") { // not asked for, but with the network
			want = append(want, line)
		}
	}
	l.says("app", append(want, "name "+l.h.Hostname(), "# Kubernetes-managed hosts file (host network).",
		l.h.Address().String()+" "+l.h.Hostname(), "nameserver 10.96.0.10")...)
	if pod.Status.PodIP != pod.Status.HostIP || pod.Status.PodIP == "" {
		l.Errorf("podIP %q, hostIP %q", pod.Status.PodIP, pod.Status.HostIP)
	}
}

// restartAllContainers: one that exits as its rule says has all begin again, the init
// containers first, in the same sandbox and with the same volumes.
func restartAllContainers(l *hostLife) {
	l.needServer(36, "RestartAllContainers") // on by default since then
	const again = 42
	script := fmt.Sprintf(
		"echo x >>/scratch/starts; test $(wc -l </scratch/starts) = 2 || exit %d; echo inits $(wc -l </scratch/inits)", again,
	)
	l.create(l.pod(shell(script), mount("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		beside("sh", "-c", "trap '' TERM; sleep 1000000"),
		func(pod *corev1.Pod) {
			app := &pod.Spec.Containers[0]
			init := *app.DeepCopy()
			init.Name, init.Command = "init", []string{"sh", "-c", "echo x >>/scratch/inits"}
			pod.Spec.InitContainers = []corev1.Container{init}
			app.RestartPolicy = new(corev1.ContainerRestartPolicyNever)
			app.RestartPolicyRules = []corev1.ContainerRestartRule{{
				Action: corev1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
					Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{again},
				},
			}}
		}))
	l.until("all restarted once", func(pod *corev1.Pod) error {
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if s.RestartCount != 1 || s.State.Running == nil && s.Name != "init" {
				return fmt.Errorf("%s: restarted %d times (%s)", s.Name, s.RestartCount, states(&pod.Status))
			}
		}
		return isReady(pod)
	})
	l.says("app", "inits 2")
	pods, err := l.h.cri.ListPodSandbox(
		l.Context(),
		&runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
			LabelSelector: map[string]string{"io.kubernetes.pod.namespace": l.namespace},
		}},
	)
	if l.must(err); len(pods.GetItems()) != 1 {
		l.Errorf("%d sandboxes, want the same one", len(pods.GetItems()))
	}
}

// withoutAppArmor: a profile that nothing would enforce is refused as a kubelet
// refuses it; where it is enforced, the pod runs.
func withoutAppArmor(l *hostLife) {
	if enabled, err := os.ReadFile("/sys/module/apparmor/parameters/enabled"); err == nil &&
		strings.HasPrefix(string(enabled), "Y") {
		need.Missing(l, "this machine enforces AppArmor, and a host without it is needed")
	}
	l.create(l.pod(shell(":"), podSecured(corev1.PodSecurityContext{
		AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault},
	})))
	l.until("refused", func(pod *corev1.Pod) error {
		const words = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
		if pod.Status.Phase != corev1.PodFailed || !strings.Contains(pod.Status.Message, words) {
			return fmt.Errorf("%s %s: %s (%s)", pod.Status.Phase, pod.Status.Reason, pod.Status.Message, states(&pod.Status))
		}
		return nil
	})
}

// hostPort: a port of the host leads to the pod, until the pod goes.
func hostPort(l *hostLife) {
	l.create(l.pod([]string{
		"sh", "-c", "mkdir /tmp/www; echo through >/tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www",
	},
		spec(func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 18080, Protocol: corev1.ProtocolTCP}}
		})))
	l.until("Ready", isReady)
	address := net.JoinHostPort(l.h.Address().String(), "18080")
	ask := func() (string, error) {
		ctx, cancel := context.WithTimeout(l.Context(), 30*time.Second)
		defer cancel()
		conn, err := l.h.DialContext(ctx, "tcp", address)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			return "", err
		}
		if _, err := fmt.Fprint(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return "", err
		}
		var last string
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			last = lines.Text()
		}
		return last, nil
	}
	wait.For(l.T, l.patience(), "an answer at "+address, func() error {
		if got, err := ask(); err != nil || got != "through" {
			return fmt.Errorf("%q %w", got, err)
		}
		return nil
	})
	l.endsClean()
	if got, err := ask(); err == nil {
		l.Errorf("the port of a pod that has gone answers %q", got)
	}
}

// hostAliases: the whole managed file, as a kubelet writes it.
func hostAliases(l *hostLife) {
	l.create(l.pod(shell("cat /etc/hosts"), spec(func(s *corev1.PodSpec) {
		s.HostAliases = []corev1.HostAlias{
			{IP: "192.0.2.7", Hostnames: []string{"seven", "seven.test"}}, {IP: "192.0.2.8", Hostnames: []string{"eight"}},
		}
	})))
	pod := l.until("Ready", isReady)
	want := "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n" +
		pod.Status.PodIP + "\tsubject\n\n# Entries added by HostAliases.\n192.0.2.7\tseven\tseven.test\n192.0.2.8\teight\n"
	wait.For(l.T, l.patience(), "the file", func() error {
		if got, err := l.log("app"); err != nil || got != want {
			return fmt.Errorf("is %q, want %q %w", got, want, err)
		}
		return nil
	})
}

// class makes a RuntimeClass for as long as the row runs.
func (l *hostLife) class(handler string, overhead corev1.ResourceList) string {
	l.Helper()
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}, Handler: handler}
	if overhead != nil {
		class.Overhead = &nodev1.Overhead{PodFixed: overhead}
	}
	classes := l.c.client.NodeV1().RuntimeClasses()
	_, err := classes.Create(l.Context(), class, metav1.CreateOptions{})
	l.must(err)
	// a row may have done it
	l.Cleanup(func() { _ = classes.Delete(context.Background(), class.Name, metav1.DeleteOptions{}) })
	return class.Name
}

// runtimeClass: the handler runs the pod, whose cgroup has room for the overhead.
func runtimeClass(l *hostLife) {
	name := l.class("runc", corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")})
	var pod *corev1.Pod
	wait.For(l.T, l.patience(), "the API server knows the class", func() (err error) {
		pod, err = l.pods().Create(l.Context(), l.pod(shell(":"), spec(
			func(s *corev1.PodSpec) { s.RuntimeClassName = &name },
		),
			limits("100m", "32Mi")), metav1.CreateOptions{})
		return err
	})
	l.until("Ready", isReady)
	sandboxes := l.h.sandboxes(l.T, string(pod.UID))
	if len(sandboxes) != 1 || sandboxes[0].RuntimeHandler != "runc" {
		l.Errorf("sandboxes %v", sandboxes)
	}
	l.cgroupHas(pod, "memory", "memory.limit_in_bytes", 48<<20)
}

// gated makes a pod of the class that no scheduler binds until ungate.
func (l *hostLife) gated(class string) *corev1.Pod {
	l.Helper()
	var pod *corev1.Pod
	wait.For(l.T, l.patience(), "the API server knows the class", func() (err error) {
		pod, err = l.pods().Create(l.Context(), l.pod(shell(":"), spec(func(s *corev1.PodSpec) {
			s.RuntimeClassName, s.SchedulingGates = &class, []corev1.PodSchedulingGate{{Name: "burstlet.test/gate"}}
		})), metav1.CreateOptions{})
		return err
	})
	return pod
}

func (l *hostLife) ungate() {
	l.Helper()
	_, err := l.pods().Patch(
		l.Context(), "subject", types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{},
	)
	l.must(err)
}

// runtimeClassMissing: an Event names the class, and the pod starts once it is
// there.
func runtimeClassMissing(l *hostLife) {
	name := l.class("runc", nil)
	pod := l.gated(name)
	l.must(l.c.client.NodeV1().RuntimeClasses().Delete(l.Context(), name, metav1.DeleteOptions{}))
	l.ungate()
	l.event(pod, "FailedCreatePodSandBox", "failed to get sandbox runtime", `"`+name+`" not found`)
	l.class("runc", nil)
	l.must(neverRestarted(l.until("Ready once it is there", isReady)))
}

// runtimeHandlerMissing: an Event names the handler that the runtime lacks.
func runtimeHandlerMissing(l *hostLife) {
	name := l.class("no-such-handler", nil)
	pod := l.gated(name)
	l.ungate()
	l.event(pod, "FailedCreatePodSandBox", `no runtime for "no-such-handler" is configured`)
}
