package provider

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/burstlet/burstlet/backend"
)

var (
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	spec = nodeSpec{name: "n1", backend: "sim", port: 10250, NodeOptions: NodeOptions{
		MaxPods: 110, InternalIP: "10.0.0.9", Version: KubeletVersion("0.1.0"),
		Labels: map[string]string{"team": "blue", "node-role.kubernetes.io/agent": "", "topology.kubernetes.io/zone": "z1"},
	}}
)

func goodFacts() *backend.NodeFacts { f := newRemote().facts; return &f }

func TestNodeThatIsWell(t *testing.T) {
	node := spec.build(observation{now: noon, started: noon.Add(-time.Hour), lastRelist: noon, facts: goodFacts()},
		corev1.NodeStatus{}, corev1.NodeStatus{})
	wantLabels := map[string]string{
		"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		"type": "virtual-kubelet", "node.kubernetes.io/exclude-from-external-load-balancers": "",
		"team": "blue", "topology.kubernetes.io/zone": "z1",
	}
	if diff := cmp.Diff(wantLabels, node.Labels); diff != "" {
		t.Error(diff)
	}
	if got := spec.restrictedLabels(); len(got) != 1 {
		t.Errorf("restricted labels: %v", got)
	}
	for name, want := range map[corev1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "110"} {
		if got := capacityOf(t, node, name); got != want {
			t.Errorf("capacity of %s is %s, want %s", name, got, want)
		}
	}
	if diff := cmp.Diff(node.Status.Capacity, node.Status.Allocatable); diff != "" {
		t.Error(diff)
	}
	wantAddresses := []corev1.NodeAddress{{Type: "InternalIP", Address: "10.0.0.9"}, {Type: "Hostname", Address: "n1"}}
	if diff := cmp.Diff(wantAddresses, node.Status.Addresses); diff != "" {
		t.Error(diff)
	}
	if got := node.Status.DaemonEndpoints.KubeletEndpoint.Port; got != 10250 {
		t.Errorf("port %d", got)
	}
	if info := node.Status.NodeInfo; info.KubeletVersion != "v1.36.3+burstlet-0.1.0" ||
		info.ContainerRuntimeVersion != "fake://1" {
		t.Errorf("node info %+v", info)
	}
	for i, want := range []corev1.NodeCondition{
		{Type: "MemoryPressure", Status: "False"},
		{Type: "DiskPressure", Status: "False"},
		{Type: "PIDPressure", Status: "False"},
		{Type: "NetworkUnavailable", Status: "False"},
		{Type: "Ready", Status: "True"},
	} {
		if got := node.Status.Conditions[i]; got.Type != want.Type || got.Status != want.Status {
			t.Errorf("condition %d: %+v", i, got)
		}
	}
}

// What the remote keeps for itself is no pod's, even where the configuration says how much
// there is.
func TestWhatIsReservedIsNotAllocatable(t *testing.T) {
	facts := goodFacts()
	facts.Reserved = corev1.ResourceList{
		"cpu": resource.MustParse("500m"), "memory": resource.MustParse("9Gi"),
		"ephemeral-storage": resource.MustParse("1Gi"),
	}
	node := spec.build(
		observation{now: noon, started: noon, lastRelist: noon, facts: facts}, corev1.NodeStatus{}, corev1.NodeStatus{},
	)
	for name, want := range map[corev1.ResourceName]string{"cpu": "3500m", "memory": "0", "pods": "110"} {
		if got := node.Status.Allocatable[name]; got.String() != want {
			t.Errorf("%s of %s can be allocated, want %s", got.String(), name, want)
		}
	}
	if _, ok := node.Status.Allocatable["ephemeral-storage"]; ok {
		t.Error("something can be allocated of what is not there")
	}
	if got := node.Status.Capacity["cpu"]; got.String() != "4" {
		t.Errorf("the capacity is %s", got.String())
	}
}

func TestNodeFeatures(t *testing.T) {
	for _, can := range []bool{true, false} {
		facts := goodFacts()
		facts.SupplementalGroupsPolicy = can
		status := spec.build(
			observation{now: noon, started: noon, facts: facts}, corev1.NodeStatus{}, corev1.NodeStatus{},
		).Status
		if got := status.Features != nil && *status.Features.SupplementalGroupsPolicy; got != can {
			t.Errorf("features %v, want supplementalGroupsPolicy %t", status.Features, can)
		}
	}
}

// The Node says of each runtime handler what pods get of it (nodestatus/setters.go, RuntimeHandlers).
func TestRuntimeHandlers(t *testing.T) {
	facts := goodFacts()
	facts.RuntimeHandlers = []string{"", "kata"}
	facts.RecursiveReadOnly, facts.UserNamespaces = []string{""}, []string{"kata"}
	node := spec.build(observation{now: noon, started: noon, facts: facts}, corev1.NodeStatus{}, corev1.NodeStatus{})
	want := []corev1.NodeRuntimeHandler{
		{Features: &corev1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: new(true), UserNamespaces: new(false)}},
		{Name: "kata", Features: &corev1.NodeRuntimeHandlerFeatures{
			RecursiveReadOnlyMounts: new(false), UserNamespaces: new(true),
		}},
	}
	if diff := cmp.Diff(want, node.Status.RuntimeHandlers); diff != "" {
		t.Errorf("handlers (-want +got):\n%s", diff)
	}
	if kept := remembered(node); !slices.Equal(kept.RuntimeHandlers, facts.RuntimeHandlers) ||
		!slices.Equal(kept.RecursiveReadOnly, facts.RecursiveReadOnly) ||
		!slices.Equal(kept.UserNamespaces, facts.UserNamespaces) {
		t.Errorf(
			"remembered are %q, of these read-only with all below %q, with user namespaces %q", kept.RuntimeHandlers,
			kept.RecursiveReadOnly, kept.UserNamespaces,
		)
	}
}

func TestCapacityOverrides(t *testing.T) {
	s := spec
	s.Capacity = corev1.ResourceList{"cpu": resource.MustParse("1"), "example.com/gpu": resource.MustParse("2")}
	s.MaxPods = 7
	facts := goodFacts()
	facts.Capacity["pods"] = resource.MustParse("9")
	node := s.build(observation{now: noon, facts: facts}, corev1.NodeStatus{}, corev1.NodeStatus{})
	for name, want := range map[corev1.ResourceName]string{
		"cpu": "1", "memory": "8Gi", "pods": "7", "example.com/gpu": "2",
	} {
		if got := capacityOf(t, node, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestReady(t *testing.T) {
	start := noon.Add(-time.Hour)
	denied := backend.Errorf(backend.ErrDenied, "token expired")
	away := backend.Errorf(backend.ErrUnavailable, "connection refused")
	noNetwork := goodFacts()
	noNetwork.NetworkReady, noNetwork.Message = false, "cni plugin not initialized"
	for _, tc := range []struct {
		name   string
		obs    observation
		status corev1.ConditionStatus
		reason string
		within []string
	}{
		{"listed just now", observation{started: start, lastRelist: noon, facts: goodFacts()}, "True", "KubeletReady", nil},
		{
			"listed 40 s ago",
			observation{started: start, lastRelist: noon.Add(-40 * time.Second), facts: goodFacts()},
			"True",
			"KubeletReady", nil,
		},
		{
			"listed 41 s ago",
			observation{started: start, lastRelist: noon.Add(-41 * time.Second), facts: goodFacts(), factsErr: away},
			"False", "BackendUnreachable",
			[]string{"backend sim", "2026-03-04T11:59:19Z", "connection refused"},
		},
		{
			"never listed, just started",
			observation{started: noon.Add(-39 * time.Second), facts: goodFacts()},
			"True",
			"KubeletReady", nil,
		},
		{
			"never listed, started long ago",
			observation{started: start, facts: goodFacts()},
			"False", "BackendUnreachable",
			[]string{"since this process started at 2026-03-04T11:00:00Z"},
		},
		{
			"no answer yet",
			observation{started: noon.Add(-time.Second), factsErr: away},
			"False", "KubeletNotReady",
			[]string{"missing node capacity for resources: cpu, memory", "has not answered yet: connection refused"},
		},
		{
			"what pods cannot live with came later",
			observation{started: start, lastRelist: noon, facts: goodFacts(), factsErr: backend.Errorf(
				backend.ErrUnsupported, "a kubelet runs on the host",
			)},
			"False", "KubeletNotReady",
			[]string{"a kubelet runs on the host"},
		},
		{
			"no network",
			observation{started: start, lastRelist: noon, facts: noNetwork},
			"False", "KubeletNotReady",
			[]string{"NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"},
		},
		{
			"denied",
			observation{started: start, lastRelist: noon, facts: goodFacts(), factsErr: denied},
			"False", "BackendDenied",
			[]string{"credentials", "token expired"},
		},
		{
			"one question without an answer",
			observation{started: start, lastRelist: noon, facts: goodFacts(), factsErr: away},
			"True", "KubeletReady", nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.obs.now = noon
			node := spec.build(tc.obs, corev1.NodeStatus{}, corev1.NodeStatus{})
			c := condition(node.Status.Conditions, corev1.NodeReady)
			if c.Status != tc.status || c.Reason != tc.reason {
				t.Errorf("got %s %s: %s", c.Status, c.Reason, c.Message)
			}
			for _, want := range tc.within {
				if !strings.Contains(c.Message, want) {
					t.Errorf("%q lacks %q", c.Message, want)
				}
			}
		})
	}
}

func TestConditionTimes(t *testing.T) {
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(d)) }
	is := func(status corev1.ConditionStatus, since time.Duration) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: at(since)}}
	}
	v := []verdict{{kind: corev1.NodeReady, status: corev1.ConditionTrue}}
	for _, tc := range []struct {
		name          string
		inAPI, before []corev1.NodeCondition
		want          metav1.Time
	}{
		{"first", nil, nil, at(0)},
		{"as in the API since long ago", is("True", -time.Hour), nil, at(-time.Hour)},
		{"turned now", is("False", -time.Hour), is("False", -time.Hour), at(0)},
		{"turned a while ago, not in the API yet", is("False", -time.Hour), is("True", -time.Minute), at(-time.Minute)},
		{"someone else turned it since", is("Unknown", -time.Second), is("True", -time.Hour), at(0)},
		{"not in the API", nil, is("True", -time.Minute), at(-time.Minute)},
	} {
		got := conditions(v, noon, tc.inAPI, tc.before)[0]
		if !got.LastTransitionTime.Equal(&tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got.LastTransitionTime, tc.want)
		}
	}
}

// A message with an error in it would be written anew with every error.
func TestMessageOfUnreachableRemoteIsSteady(t *testing.T) {
	obs := observation{now: noon, started: noon.Add(-time.Hour), facts: goodFacts(), factsErr: errors.New("port 1234")}
	first := spec.build(obs, corev1.NodeStatus{}, corev1.NodeStatus{})
	obs.now, obs.factsErr = noon.Add(time.Minute), errors.New("port 5678")
	second := spec.build(obs, first.Status, first.Status)
	if !settled(second, first) {
		t.Errorf("%+v\n%+v", first.Status.Conditions, second.Status.Conditions)
	}
}

// But what is wrong may change, and the reason does not tell.
func TestMessageOfUnreachableRemoteIsRestated(t *testing.T) {
	err := errors.New("no route to host")
	r := &remote{facts: new(backend.NodeFacts), err: err}
	c := &composer{
		spec: spec, remote: r, started: noon,
		lastRelist: func() time.Time { return time.Time{} },
		pressure:   func() ([]corev1.NodeConditionType, bool) { return nil, true }, closing: func() bool { return false },
	}
	message := func(after time.Duration) string {
		return condition(c.compose(noon.Add(time.Hour+after), nil).Status.Conditions, corev1.NodeReady).Message
	}
	first := message(0)
	r.err = errors.New("host key has changed")
	if now := message(restateEvery - time.Second); now != first {
		t.Errorf("it says %q at once", now)
	}
	if now := message(restateEvery); !strings.Contains(now, "host key has changed") {
		t.Errorf("it says %q for ever", now)
	}
}

// Capacity that is configured says nothing about the remote.
func TestNodeIsNotReadyBeforeTheRemoteAnswered(t *testing.T) {
	s := spec
	s.Capacity = corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	node := s.build(
		observation{now: noon, started: noon, factsErr: errors.New("refused")}, corev1.NodeStatus{}, corev1.NodeStatus{},
	)
	got := condition(node.Status.Conditions, corev1.NodeReady)
	if got.Status != "False" || got.Reason != "KubeletNotReady" ||
		!strings.Contains(got.Message, "has not answered yet: refused") {
		t.Errorf("got %s %s: %s", got.Status, got.Reason, got.Message)
	}
}

func TestSettled(t *testing.T) {
	obs := observation{now: noon, started: noon, facts: goodFacts()}
	want := spec.build(obs, corev1.NodeStatus{}, corev1.NodeStatus{})
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		ok     bool
	}{
		"same":          {func(*corev1.Node) {}, true},
		"heartbeat":     {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }, true},
		"others' label": {func(n *corev1.Node) { n.Labels["x"] = "y" }, true},
		"others' address": {func(n *corev1.Node) {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: "ExternalIP"})
		}, true},
		"others' condition": {func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "X"})
		}, true},
		"condition turned": {func(n *corev1.Node) { n.Status.Conditions[4].Status = "Unknown" }, false},
		"condition gone":   {func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[1:] }, false},
		"label changed":    {func(n *corev1.Node) { n.Labels["team"] = "red" }, false},
		"capacity":         {func(n *corev1.Node) { n.Status.Capacity["cpu"] = resource.MustParse("3") }, false},
		"address":          {func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.1" }, false},
		"features": {
			func(n *corev1.Node) { n.Status.Features = &corev1.NodeFeatures{SupplementalGroupsPolicy: new(true)} }, false,
		},
		"runtime handlers": {
			func(n *corev1.Node) { n.Status.RuntimeHandlers = []corev1.NodeRuntimeHandler{{Name: "kata"}} }, false,
		},
		"port":    {func(n *corev1.Node) { n.Status.DaemonEndpoints.KubeletEndpoint.Port = 1 }, false},
		"version": {func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1" }, false},
	} {
		have := want.DeepCopy()
		tc.change(have)
		if got := settled(want, have); got != tc.ok {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRestricted(t *testing.T) {
	for key, want := range map[string]bool{
		"team": false, "example.com/x": false, "kubernetes.io/hostname": false, "node.kubernetes.io/instance-type": false,
		"kubelet.kubernetes.io/x": false, "a.node.kubernetes.io/x": false, "topology.kubernetes.io/zone": false,
		"kubernetes.io/role": true, "node-role.kubernetes.io/agent": true, "x.k8s.io/y": true,
		"node-restriction.kubernetes.io/x": true, "a.node-restriction.kubernetes.io/x": true, "notkubernetes.io/x": false,
	} {
		if got := restricted(key); got != want {
			t.Errorf("%s: %v", key, got)
		}
	}
}

func TestKubeletVersion(t *testing.T) {
	for in, want := range map[string]string{
		"0.1.0": "v1.36.3+burstlet-0.1.0", "v0.2.0-rc.1+dirty": "v1.36.3+burstlet-0.2.0-rc.1-dirty",
		"(devel)": "v1.36.3+burstlet-devel", "": "v1.36.3+burstlet-devel",
	} {
		got := KubeletVersion(in)
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
		parsed, err := version.ParseSemantic(got)
		if err != nil || parsed.LessThan(version.MustParseSemantic("v1.36.3")) {
			t.Errorf("%s: %v", got, err)
		}
	}
}

func TestDue(t *testing.T) {
	obs := observation{now: noon, started: noon, facts: goodFacts()}
	node := spec.build(obs, corev1.NodeStatus{}, corev1.NodeStatus{})
	other := node.DeepCopy()
	other.Status.Conditions[4].Status = "False"
	for name, tc := range map[string]struct {
		have, pushed *corev1.Node
		known        bool
		since        time.Duration
		want         bool
	}{
		"first":                     {nil, nil, false, time.Hour, true},
		"changed":                   {node, other, true, 0, true},
		"settled":                   {node, node, true, time.Hour, false},
		"pushed, not there yet":     {other, node, true, time.Second, false},
		"pushed, still not there":   {other, node, true, repushEvery, true},
		"deleted":                   {nil, node, true, composeEvery, true},
		"deleted this very moment":  {nil, node, true, 0, false},
		"nothing known of the Node": {nil, node, false, time.Hour, false},
	} {
		if got := due(node, tc.have, tc.pushed, tc.known, tc.since); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAnnotationsAreTheRemotesAndTheConfiguredOnes(t *testing.T) {
	facts := goodFacts()
	facts.Annotations = map[string]string{"remote/cost": "1", "both": "remote"}
	s := spec
	s.Annotations = map[string]string{"team": "blue", "both": "configured"}
	node := s.build(
		observation{now: noon, started: noon.Add(-time.Hour), lastRelist: noon, facts: facts}, corev1.NodeStatus{},
		corev1.NodeStatus{},
	)
	want := map[string]string{"remote/cost": "1", "team": "blue", "both": "configured"}
	if diff := cmp.Diff(want, node.Annotations); diff != "" {
		t.Error(diff)
	}
	if !settled(node, node) {
		t.Error("a node is not what it is")
	}
	have := node.DeepCopy()
	have.Annotations["remote/cost"] = "2"
	if settled(node, have) {
		t.Error("a remote's annotation that changed is not written")
	}
}

// TestDeclaredFeatures: what a node declares is what its backend lends, sorted as the API wants it.
func TestDeclaredFeatures(t *testing.T) {
	type containers struct{ backend.Containers }
	type resizer struct{ backend.Resizer }
	for name, tt := range map[string]struct {
		backend backend.Backend
		want    []string
	}{
		"whole pods":        {backend.Backend{}, nil},
		"single containers": {backend.Backend{Containers: containers{}}, []string{"RestartAllContainersOnContainerExits"}},
		"and their resize": {
			backend.Backend{Containers: containers{}, Resize: resizer{}},
			[]string{
				"InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
				"RestartAllContainersOnContainerExits",
			},
		},
	} {
		if got := declaredFeatures(tt.backend); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
