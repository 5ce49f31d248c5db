package admit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// aNode has room for two pods, 2 cpus and 1 Gi, and can do everything.
func aNode() Node {
	return Node{
		Name: "n", OS: "linux", Kernel: "6.1.0-28-amd64", Labels: map[string]string{"zone": "a", "size": "8"},
		Allocatable: list("pods", "2", "cpu", "2", "memory", "1Gi", "ephemeral-storage", "10Gi", "example.com/gpu", "1"),
		HostNetwork: true, HostPID: true, HostIPC: true, HostPorts: true,
		Can: Abilities{Traits: backend.Traits{Containers: true, Exec: true, Dial: true}},
	}
}

func aPod(uid string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func asks(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list(pairs...) }
}

func takes(ip string, port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostIP: ip, HostPort: port, ContainerPort: port}}
	}
}

func sets(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{}
		for _, n := range names {
			p.Spec.SecurityContext.Sysctls = append(p.Spec.SecurityContext.Sysctls, corev1.Sysctl{Name: n, Value: "1"})
		}
	}
}

func needs(key string, op corev1.NodeSelectorOperator, values ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}},
			}}},
		}}
	}
}

func tolerating(t corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }
}

// TestDecide: the kubelet's reasons and words (pkg/kubelet/lifecycle/predicate.go,
// pkg/kubelet/sysctl/allowlist.go).
func TestDecide(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	strict, merge := corev1.SupplementalGroupsPolicyStrict, corev1.SupplementalGroupsPolicyMerge
	noExecute := corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}
	pods := func(p ...*corev1.Pod) []*corev1.Pod { return p }
	for _, tt := range []struct {
		name            string
		pod             *corev1.Pod
		node            func(*Node)
		others          []*corev1.Pod
		refusals        []backend.Refusal
		reason, message string
	}{
		{name: "nothing asked", pod: aPod("p")},
		{
			name: "unknown node", pod: aPod("p"), node: func(n *Node) { n.Allocatable = nil }, reason: "InvalidNodeInfo",
			message: "Kubelet cannot get node info.",
		},

		{name: "all of the cpu", pod: aPod("p", asks("cpu", "2"))},
		{
			name: "cpu", pod: aPod("p", asks("cpu", "4")), others: pods(aPod("q", asks("cpu", "1m"))), reason: "OutOfcpu",
			message: "Node didn't have enough resource: cpu, requested: 4000, used: 1, capacity: 2000",
		},
		{
			name: "memory", pod: aPod("p", asks("memory", "1Gi")), others: pods(aPod("q", asks("memory", "1"))),
			reason:  "OutOfmemory",
			message: "Node didn't have enough resource: memory, requested: 1073741824, used: 1, capacity: 1073741824",
		},
		{
			name: "disk", pod: aPod("p", asks("ephemeral-storage", "11Gi")), reason: "OutOfephemeral-storage",
			message: "Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, capacity: " +
				"10737418240",
		},
		{
			name: "number of pods, before anything else", pod: aPod("p", asks("cpu", "9")), others: pods(aPod("q"), aPod("r")),
			reason:  "OutOfpods",
			message: "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2",
		},
		{name: "the pod itself is no other", pod: aPod("p", asks("cpu", "2")), others: pods(
			aPod("p", asks("cpu", "2")), aPod("q"),
		)},
		{
			name: "extended resource", pod: aPod("p", asks("example.com/gpu", "1")),
			others:  pods(aPod("q", asks("example.com/gpu", "1"))),
			reason:  "OutOfexample.com/gpu",
			message: "Node didn't have enough resource: example.com/gpu, requested: 1, used: 1, capacity: 1",
		},
		{name: "extended resource that the node does not know", pod: aPod("p", asks("example.com/fpga", "1"))},
		{
			name: "huge pages that the node has not", pod: aPod("p", asks("hugepages-2Mi", "2Mi")), reason: "OutOfhugepages-2Mi",
			message: "Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0",
		},
		{
			name: "nothing of a resource that is overcommitted", pod: aPod("p", asks("cpu", "0", "example.com/gpu", "0")),
			others: pods(aPod("q", asks("cpu", "5", "example.com/gpu", "3"))),
		},
		{
			name: "the init container counts if it is the larger", pod: aPod("p", asks("cpu", "1"), func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("cpu", "3")}}}
			}), reason: "OutOfcpu", message: "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000",
		},
		{
			name: "sidecars count beside the rest, and overhead", pod: aPod("p", asks("cpu", "1"), func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{
					RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: list("cpu", "1")},
				}}
				p.Spec.Overhead = list("cpu", "1m")
			}), reason: "OutOfcpu", message: "Node didn't have enough resource: cpu, requested: 2001, used: 0, capacity: 2000",
		},
		{
			name: "pod-level requests replace those of containers", pod: aPod("p", asks("cpu", "1"), func(p *corev1.Pod) {
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "3")}
			}), reason: "OutOfcpu", message: "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000",
		},
		{
			name: "a pod that shrinks counts with what it still has", pod: aPod("p", asks("cpu", "1")),
			others: pods(aPod("q", func(p *corev1.Pod) {
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "1")}
				p.Status.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "1500m")}
			})), reason: "OutOfcpu", message: "Node didn't have enough resource: cpu, requested: 1000, used: 1500, " +
				"capacity: 2000",
		},

		{name: "node selector", pod: aPod("p", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} })},
		{
			name:    "node selector of others",
			pod:     aPod("p", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "b"} }),
			reason:  "NodeAffinity",
			message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
		},
		{name: "affinity", pod: aPod("p", needs("size", corev1.NodeSelectorOpGt, "7"))},
		{
			name: "affinity to others", pod: aPod("p", needs("size", corev1.NodeSelectorOpLt, "8")), reason: "NodeAffinity",
			message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
		},
		{
			name: "affinity that cannot be read", pod: aPod("p", needs("size", "Near", "8")), reason: "NodeAffinity",
			message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
		},
		{
			name: "another node's", pod: aPod("p", func(p *corev1.Pod) { p.Spec.NodeName = "m" }), reason: "NodeName",
			message: "Predicate NodeName failed: node(s) didn't match the requested node name",
		},
		{name: "another port", pod: aPod("p", takes("", 80)), others: pods(aPod("q", takes("", 81)))},
		{
			name: "the port of another address", pod: aPod("p", takes("10.0.0.1", 80)),
			others: pods(aPod("q", takes("10.0.0.2", 80))),
		},
		{
			name: "a taken port", pod: aPod("p", takes("10.0.0.1", 80)), others: pods(aPod("q", takes("", 80))),
			reason:  "NodePorts",
			message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
		},
		{
			name: "a port taken on one address", pod: aPod("p", takes("0.0.0.0", 80)),
			others: pods(aPod("q", takes("10.0.0.2", 80))), reason: "NodePorts",
			message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
		},
		{
			name: "a taint", pod: aPod(
				"p", tolerating(corev1.Toleration{Key: "k", Value: "w"}),
				tolerating(corev1.Toleration{Key: "j", Operator: "Exists"}),
				tolerating(corev1.Toleration{Key: "k", Operator: "Lt", Value: "9"}),
			),
			node: func(n *Node) { n.Taints = []corev1.Taint{noExecute} }, reason: "TaintToleration",
			message: "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
		},
		{
			name: "a tolerated taint", pod: aPod("p", tolerating(corev1.Toleration{Key: "k", Value: "v", Effect: "NoExecute"})),
			node: func(n *Node) { n.Taints = []corev1.Taint{noExecute} },
		},
		{
			name: "everything is tolerated", pod: aPod("p", tolerating(corev1.Toleration{Operator: "Exists"})),
			node: func(n *Node) { n.Taints = []corev1.Taint{noExecute} },
		},
		{name: "a taint for the scheduler", pod: aPod("p"), node: func(n *Node) {
			n.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		}},
		{name: "a taint and a static pod", pod: aPod("p", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		}), node: func(n *Node) { n.Taints = []corev1.Taint{noExecute} }},

		{
			name: "windows", pod: aPod("p", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "windows"} }),
			reason:  "PodOSNotSupported",
			message: "Failed to admit pod as the OS field doesn't match node OS",
		},
		{
			name:    "label windows",
			pod:     aPod("p", func(p *corev1.Pod) { p.Labels = map[string]string{"kubernetes.io/os": "windows"} }),
			reason:  "PodOSSelectorNodeLabelDoesNotMatch",
			message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
		},
		{
			name:    "strict groups",
			pod:     aPod("p", sets(), func(p *corev1.Pod) { p.Spec.SecurityContext.SupplementalGroupsPolicy = &strict }),
			reason:  "SupplementalGroupsPolicyNotSupported",
			message: "SupplementalGroupsPolicy=Strict is not supported in this node",
		},
		{
			name: "strict groups where they can be",
			pod:  aPod("p", sets(), func(p *corev1.Pod) { p.Spec.SecurityContext.SupplementalGroupsPolicy = &strict }),
			node: func(n *Node) { n.SupplementalGroupsPolicy = true },
		},
		{name: "merged groups", pod: aPod(
			"p", sets(), func(p *corev1.Pod) { p.Spec.SecurityContext.SupplementalGroupsPolicy = &merge },
		)},

		{name: "safe sysctls", pod: aPod("p", sets("kernel.shm_rmid_forced", "net/ipv4/tcp_rmem"))},
		{
			name: "unsafe sysctl, before what there is no room for", pod: aPod("p", sets("kernel.msgmax"), asks("cpu", "9")),
			reason:  "SysctlForbidden",
			message: `forbidden sysctl: "kernel.msgmax" not allowlisted`,
		},
		{
			name: "sysctl that an old kernel shares", pod: aPod("p", sets("net.ipv4.tcp_rmem")),
			node: func(n *Node) { n.Kernel = "4.14.2" }, reason: "SysctlForbidden",
			message: `forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted`,
		},
		{
			name: "sysctl that an unknown kernel may share", pod: aPod("p", sets("net.ipv4.tcp_rmem")),
			node: func(n *Node) { n.Kernel = "" }, reason: "SysctlForbidden",
			message: `forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted`,
		},
		{name: "allowed sysctls", pod: aPod("p", sets("kernel.msgmax", "net.core.somaxconn")), node: func(n *Node) {
			n.AllowedUnsafeSysctls = []string{"kernel.msg*", "net.core.somaxconn"}
		}},
		{
			name:    "sysctl of the host's network",
			pod:     aPod("p", sets("net.ipv4.tcp_syncookies"), func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
			reason:  "SysctlForbidden",
			message: `forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled`,
		},
		{
			name: "sysctl of the host's IPC",
			pod:  aPod("p", sets("kernel.msgmax"), func(p *corev1.Pod) { p.Spec.HostIPC = true }), reason: "SysctlForbidden",
			node:    func(n *Node) { n.AllowedUnsafeSysctls = []string{"kernel.msg*"} },
			message: `forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled`,
		},

		{
			name: "a feature by name", pod: aPod("p", func(p *corev1.Pod) {
				p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{
					{Action: corev1.ContainerRestartRuleActionRestartAllContainers},
				}
			}), node: func(n *Node) { n.Can.Containers = false }, reason: "PodFeatureUnsupported",
			message: "Pod requires node features that are not available: RestartAllContainersOnContainerExits",
		},
		{
			name: "fields, after the kubelet's checks", pod: aPod("p", func(p *corev1.Pod) { p.Spec.NodeName = "m" }),
			refusals: []backend.Refusal{{Field: "f", Why: "w"}},
			reason:   "NodeName", message: "Predicate NodeName failed: node(s) didn't match the requested node name",
		},
		{
			name:     "fields, each once",
			pod:      aPod("p", func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{}} }),
			refusals: []backend.Refusal{{Field: "spec.resourceClaims[0]", Why: "no"}, {Field: "spec.x", Why: "cannot be"}},
			reason:   "UnsupportedByBackend",
			message:  "spec.resourceClaims[0]: this node has no devices to claim; leave it out; spec.x: cannot be",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node, want := aNode(), (*Rejection)(nil)
			if tt.node != nil {
				tt.node(&node)
			}
			if tt.reason != "" {
				want = &Rejection{tt.reason, tt.message}
			}
			got := Decide(tt.pod, node, tt.others, tt.refusals)
			if (got == nil) != (want == nil) || got != nil && *got != *want {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			if got != nil && got.StatusMessage() != "Pod was rejected: "+tt.message {
				t.Errorf("status says %q", got.StatusMessage())
			}
		})
	}
}

// TestCheckSysctls: what a kubelet takes for allowedUnsafeSysctls.
func TestCheckSysctls(t *testing.T) {
	for pattern, ok := range map[string]bool{
		"net.core.somaxconn": true, "net.*": true, "kernel.msg*": true, "kernel/shm*": true, "fs.mqueue.msg_max": true,
		"vm.swappiness": false, "*": false, "net.*.x": false, "Net.core": false, "": false,
	} {
		if err := CheckSysctls([]string{"kernel.sem", pattern}); (err == nil) != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// TestPressure: eviction_manager.go Admit.
func TestPressure(t *testing.T) {
	const memory, disk, pid = corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure
	type kinds = []corev1.NodeConditionType
	priority := func(p *corev1.Pod) { p.Spec.Priority = new(int32(backend.SystemCriticalPriority)) }
	source := func(s string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": s} }
	}
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"} }
	tolerates := func(key string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
			}}
		}
	}
	none, limits := func(*corev1.Pod) {}, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = list("cpu", "1") }
	for name, tt := range map[string]struct {
		pressure kinds
		pod      func(*corev1.Pod)
		want     string
	}{
		"none":                              {nil, none, ""},
		"memory: BestEffort":                {kinds{memory}, none, "The node had condition: [MemoryPressure]. "},
		"memory: BestEffort that tolerates": {kinds{memory}, tolerates(corev1.TaintNodeMemoryPressure), ""},
		"memory: BestEffort, other taint": {
			kinds{memory}, tolerates(corev1.TaintNodeDiskPressure), "The node had condition: [MemoryPressure]. ",
		},
		"memory: by its class": {
			kinds{memory}, func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSGuaranteed }, "",
		},
		"memory: requests": {kinds{memory}, asks("memory", "1Mi"), ""},
		"memory: limits":   {kinds{memory}, limits, ""},
		"memory: disk alone is BestEffort": {
			kinds{memory}, asks("ephemeral-storage", "1"), "The node had condition: [MemoryPressure]. ",
		},
		"memory: critical": {kinds{memory}, priority, ""},
		"disk: requests": {
			kinds{disk}, asks("memory", "1Mi"), "The node had condition: [DiskPressure]. ",
		},
		"disk: tolerates": {
			kinds{disk}, tolerates(corev1.TaintNodeDiskPressure), "The node had condition: [DiskPressure]. ",
		},
		"disk: critical":     {kinds{disk}, priority, ""},
		"disk: static":       {kinds{disk}, source("file"), ""},
		"disk: from the API": {kinds{disk}, source("api"), "The node had condition: [DiskPressure]. "},
		"disk: mirror":       {kinds{disk}, mirror, ""},
		"PIDs": {
			kinds{pid}, asks("memory", "1Mi"), "The node had condition: [PIDPressure]. ",
		},
		"memory and disk: requests": {
			kinds{memory, disk}, asks("memory", "1Mi"), "The node had condition: [MemoryPressure DiskPressure]. ",
		},
		"memory and disk: tolerates the first": {
			kinds{memory, disk},
			tolerates(corev1.TaintNodeMemoryPressure),
			"The node had condition: [MemoryPressure DiskPressure]. ",
		},
	} {
		node := aNode()
		node.Pressure = tt.pressure
		got := Decide(aPod("u", tt.pod), node, nil, nil)
		if (got == nil) != (tt.want == "") || got != nil && (got.Message != tt.want || got.Reason != ReasonEvicted) {
			t.Errorf("%s: got %+v, want %q", name, got, tt.want)
		}
	}
}
