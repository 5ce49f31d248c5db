package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider/removal"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

func TestRemoveNodesFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: burstlet.dev/v1alpha1\nkind: BurstletConfiguration\n"+
		"nodes: [{node: {name: a}, backend: {type: sim}}, {node: {name: b}, backend: {type: sim}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, &rest.Config{Host: "https://192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--nodes", "b,c"}, `flag --nodes: the configuration has no node "c"`},
		{[]string{"--deployment", "burstlet"}, `flag --deployment: "burstlet" is not NAMESPACE/NAME`},
		{[]string{"--deployment", "a/b/c"}, `flag --deployment: "a/b/c" is not NAMESPACE/NAME`},
		{[]string{"--timeout", "0"}, "flag --timeout: must be more than 0"},
		{[]string{"x"}, `unknown command "x" for "burstlet remove-nodes"`},
		{[]string{"--kubeconfig", "/absent"}, "read kubeconfig: stat /absent: no such file or directory"},
	} {
		args := append([]string{"remove-nodes", "--config", file, "--kubeconfig", kubeconfig}, tc.args...)
		if _, err := execute(t, args...); err == nil || err.Error() != tc.want {
			t.Errorf("%s: error %v, want %s", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}

// removalStage is a stage with a node that burstlet runs with an election in
// namespace burstlet, and what there is to be removed.
type removalStage struct {
	*stage
	node, identity, file, access string
	process                      *process
}

// newRemovalStage starts the node. The removal has the rights of deploy/rbac, and
// nothing else.
func newRemovalStage(t *testing.T, node string) *removalStage {
	t.Helper()
	s := &removalStage{stage: newStage(t), node: node}
	ctx := t.Context()
	_, err := s.admin.CoreV1().Namespaces().Create(
		ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "burstlet"}}, metav1.CreateOptions{},
	)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	s.grantRemoval()
	token, err := s.admin.CoreV1().ServiceAccounts("burstlet").CreateToken(
		ctx, "burstlet-remove-nodes", &authenticationv1.TokenRequest{}, metav1.CreateOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	s.access = cptest.Kubeconfig(s.t, &rest.Config{
		Host: s.cp.URL(), BearerToken: token.Status.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.cp.AdminConfig().CAData},
	})
	svc, err := s.admin.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.identity = string(svc.UID) + "/" + node
	cfg := fmt.Sprintf(`
node: {name: %s, internalIP: 127.0.0.1}
kubeconfig: %s
backend: {type: sim, sim: {socket: "unix://%s"}}
leaderElection: {enabled: true, namespace: burstlet, kubeconfig: %s, leaseDuration: 60s, renewDeadline: 45s, retryPeriod: 250ms}
`, node, s.nodeKubeconfig(node), s.socket, s.cp.KubeconfigPath())
	s.file = filepath.Join(t.TempDir(), "burstlet.yaml")
	if err := os.WriteFile(s.file, []byte("apiVersion: burstlet.dev/v1alpha1\nkind: BurstletConfiguration\n"+
		cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	s.process = s.run(s.configure(cfg))
	s.ready(node)
	return s
}

// lines stops something when a line is printed.
type lines struct {
	text bytes.Buffer
	on   map[string]func()
}

func (l *lines) Write(p []byte) (int, error) {
	for text, do := range l.on {
		if strings.Contains(string(p), text) {
			do()
		}
	}
	return l.text.Write(p)
}

// remove removes the node as the command does, which sets the process's logging
// beside; on is what is done when a line has a text.
func (s *removalStage) remove(ctx context.Context, on map[string]func(), change func(*removeFlags)) (string, error) {
	return s.removeAs(ctx, s.configureFile(), on, change)
}

func (s *removalStage) removeAs(
	ctx context.Context, cfg config.Configuration, on map[string]func(), change func(*removeFlags),
) (string, error) {
	out := &lines{on: on}
	f := removeFlags{kubeconfig: s.access, timeout: 5 * time.Minute, forceAfter: 2 * time.Second}
	if change != nil {
		change(&f)
	}
	err := removeNodes(ctx, out, cfg, f)
	return out.text.String(), err
}

// bare makes pods without a controller and waits until they run.
func (s *removalStage) bare(change func(*corev1.Pod), names ...string) {
	s.t.Helper()
	for _, name := range names {
		no := false
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
			Spec: corev1.PodSpec{
				NodeName: s.node, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: new(int64(1)),
				Containers: []corev1.Container{
					{
						Name: "c", Image: "busybox", Command: []string{"sleep", "infinity"},
						VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
					},
				},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Volumes: []corev1.Volume{
					{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				},
			},
		}
		if change != nil {
			change(pod)
		}
		wait.For(s.t, patience, "make pod "+name, func() error {
			_, err := s.admin.CoreV1().Pods("default").Create(s.t.Context(), pod, metav1.CreateOptions{})
			return err
		})
	}
	for _, name := range names {
		s.podReady(name)
	}
}

func (s *removalStage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// budget lets no pod of an app go.
func (s *removalStage) budget(app string) {
	s.t.Helper()
	pdbs := s.admin.PolicyV1().PodDisruptionBudgets("default")
	_, err := pdbs.Create(s.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &intstr.IntOrString{IntVal: 1},
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	s.t.Cleanup(func() { _ = pdbs.Delete(context.Background(), app, metav1.DeleteOptions{}) })
	wait.For(s.t, patience, "the budget is known", func() error {
		pdb, err := pdbs.Get(s.t.Context(), app, metav1.GetOptions{})
		if err == nil && pdb.Status.CurrentHealthy != 1 {
			err = errNotYet
		}
		return err
	})
}

// daemonSet makes one for this node whose pods tolerate everything, as those of
// networks do.
func (s *removalStage) daemonSet(name string) {
	s.t.Helper()
	labels := map[string]string{"app": name}
	sets := s.admin.AppsV1().DaemonSets("default")
	_, err := sets.Create(s.t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeSelector:                  map[string]string{corev1.LabelHostname: s.node}, // other tests have nodes, too
				TerminationGracePeriodSeconds: new(int64(1)),
				Containers:                    []corev1.Container{{Name: "c", Image: "busybox"}},
				Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	s.t.Cleanup(func() { _ = sets.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	wait.For(s.t, patience, "its pod is ready", func() error {
		set, err := sets.Get(s.t.Context(), name, metav1.GetOptions{})
		if err == nil && set.Status.NumberReady != 1 {
			err = fmt.Errorf("%+v", set.Status)
		}
		return err
	})
}

// neighbour is another cluster's node on the same remote, with a pod.
func (s *removalStage) neighbour() backend.Backend {
	s.t.Helper()
	b := s.remote.BackendFor("another/" + s.node)
	s.must(b.Pods.Launch(s.t.Context(), s.t.Context(), simTestSpec("theirs")))
	return b
}

// wantGone checks that nothing of the node is left anywhere.
func (s *removalStage) wantGone() {
	s.t.Helper()
	ctx := s.t.Context()
	if left := s.onRemote(); len(left) > 0 {
		s.t.Errorf("left on the remote: %v", left)
	}
	_, nodeErr := s.admin.CoreV1().Nodes().Get(ctx, s.node, metav1.GetOptions{})
	_, leaseErr := s.admin.CoordinationV1().Leases("kube-node-lease").Get(ctx, s.node, metav1.GetOptions{})
	_, electionErr := s.admin.CoordinationV1().Leases("burstlet").Get(ctx, "burstlet-"+s.node, metav1.GetOptions{})
	_, csrErr := s.admin.CertificatesV1().CertificateSigningRequests().Get(ctx, s.node, metav1.GetOptions{})
	for what, err := range map[string]error{
		"Node": nodeErr, "lease": leaseErr, "election's lease": electionErr, "certificate request": csrErr,
	} {
		if !apierrors.IsNotFound(err) {
			s.t.Errorf("the %s is still there (%v)", what, err)
		}
	}
	pods, err := s.admin.CoreV1().Pods("").List(
		ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", s.node).String()},
	)
	s.must(err)
	for _, p := range pods.Items {
		s.t.Errorf("pod %s is still there", p.Name)
	}
	if found := s.stage.remote.Audit().Violations; len(found) != 0 {
		s.t.Errorf("violations: %v", found)
	}
}

func (s *removalStage) onRemote() []string {
	s.t.Helper()
	b := s.stage.remote.BackendFor(s.identity)
	facts, err := b.Pods.List(s.t.Context())
	s.must(err)
	volumes, err := b.Files.Volumes(s.t.Context())
	s.must(err)
	var left []string
	for _, f := range facts {
		left = append(left, "pod "+f.Name)
	}
	for _, v := range volumes {
		left = append(left, "volume of "+v.Pod.Name)
	}
	slices.Sort(left)
	return left
}

// As helm uninstall does it: beside burstlet, which runs as a Deployment.
func TestRealRemoveNodesBesideBurstlet(t *testing.T) {
	t.Parallel()
	s := newRemovalStage(t, "leaving")
	ctx := t.Context()
	_, err := s.admin.AppsV1().Deployments("burstlet").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "burstlet"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "burstlet"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "burstlet"}},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"nowhere": ""}, Containers: []corev1.Container{{Name: "c", Image: "i"}},
				},
			},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	_, err = s.admin.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: s.node},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName, Request: servingRequest(t, s.node),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	s.bare(nil, "free", "guarded")
	s.budget("guarded")
	s.daemonSet("agent")
	theirs := s.neighbour()

	out, err := s.remove(
		ctx, map[string]func(){"scaled to 0": s.process.stop}, func(f *removeFlags) { f.deployment = "burstlet/burstlet" },
	)
	t.Log("\n" + out)
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"node leaving: cordoned\n", " runs it and ends its pods\n",
		"pod default/free has no controller: nobody makes it again\n",
		"pod default/guarded is not let go: Cannot evict pod as it would violate the pod's disruption budget.",
		"pod default/guarded deleted: it was not let go\n", "drained, pods: 2\n",
		"deployment burstlet/burstlet: its processes have ended\n",
		"node leaving: taken over\n", "Node deleted\n", "nothing of it is left on the remote\n",
		"certificate requests deleted: 1\n",
		"lease burstlet/burstlet-leaving deleted\n", "done\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q", want)
		}
	}
	s.process.end()
	s.wantGone()
	if facts, err := theirs.Pods.List(ctx); err != nil || len(facts) != 1 || !facts[0].Live {
		t.Errorf("the pods of another node: %+v, %v", facts, err)
	}
}

// Burstlet has ended and its pods run on: the removal ends them itself, with their
// hooks, is killed at several steps, and says what it cannot remove.
func TestRealRemoveNodesWithoutBurstlet(t *testing.T) {
	t.Parallel()
	s := newRemovalStage(t, "left")
	ctx := t.Context()
	s.bare(func(p *corev1.Pod) { p.Finalizers = []string{"example.org/never"} }, "kept")
	s.bare(func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = new(int64(30))
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}},
		}
	}, "hooked")
	s.daemonSet("daemon")
	s.process.end()
	var asked time.Time
	for _, line := range []string{"taken over", "pod default/hooked evicted", "its pods have ended", "Node deleted"} {
		killed, kill := context.WithCancel(ctx)
		out, err := s.remove(killed, map[string]func(){
			"pod default/hooked": func() {
				if asked.IsZero() {
					asked = s.evictedAt("hooked", 30*time.Second)
				}
			},
			line: kill,
		}, nil)
		kill()
		if err == nil || !strings.Contains(err.Error(), "run it again to go on") {
			t.Errorf("killed at %q: %v\n%s", line, err, out)
		}
	}
	if asked.IsZero() {
		t.Error("when the pod with a hook was evicted is not known")
	}
	for _, e := range s.stage.remote.History() {
		if e.Kind == sim.Stopped && e.Pod.Name == "hooked" && e.At.Before(asked.Add(time.Second)) {
			t.Errorf("stopped %v after it was evicted: before its hook was done", e.At.Sub(asked))
		}
	}
	// Twenty seconds were too short once, beside all compilers: the election's lease was still there.
	out, err := s.remove(ctx, nil, func(f *removeFlags) { f.timeout = 40 * time.Second })
	if exitStatus(err) != exitTimeOver || !strings.Contains(err.Error(), "the time is over") {
		t.Errorf("error %v, exit status %d", err, exitStatus(err))
	}
	const remains = "node left: remains: pod default/kept: it has ended and waits for its finalizers example.org/never\n"
	if !strings.Contains(out, remains) || strings.Count(out, "remains:") != 1 {
		t.Errorf("output lacks only %q:\n%s", remains, out)
	}
	if left := s.onRemote(); len(left) > 0 {
		t.Errorf("left on the remote: %v", left)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": nil}})
	s.must(err)
	_, err = s.admin.CoreV1().Pods("default").Patch(ctx, "kept", types.MergePatchType, patch, metav1.PatchOptions{})
	s.must(err)
	s.wantGone()
}

// evictedAt is when a pod of that grace was asked to end, by its own record; zero when
// it was not.
func (s *removalStage) evictedAt(name string, grace time.Duration) time.Time {
	pod, err := s.admin.CoreV1().Pods("default").Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil || pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	return pod.DeletionTimestamp.Add(-grace)
}

// What runs stays where it runs, for whoever wants it so, until it is removed after
// all; and a process that takes the node back is told of.
func TestRealRemoveNodesKeepsPods(t *testing.T) {
	t.Parallel()
	s := newRemovalStage(t, "half")
	ctx := t.Context()
	s.bare(nil, "stays")
	s.process.end()
	out, err := s.remove(ctx, nil, func(f *removeFlags) { f.keepPods = true })
	if err != nil || !strings.Contains(out, "stays on the remote: pod default/stays (uid ") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := strings.Join(s.onRemote(), ", "); got != "pod stays, volume of stays" {
		t.Errorf("on the remote: %s", got)
	}
	if _, err := s.admin.CoreV1().Pods("default").Get(ctx, "stays", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod in the API: %v", err)
	}
	// The process stands by before the removal goes on, which then waits for longer than the process takes
	// to lead.
	second, remover := s.configureFile(), s.configureFile()
	second.HealthzPort, remover.LeaderElection.RetryPeriod.Duration = ports.Free(t), 2*time.Second
	var again *process
	out, err = s.removeAs(ctx, remover, map[string]func(){"taken over": func() {
		again = s.run(second)
		soon, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := wait.Until(soon, "it stands by", func(context.Context) error {
			text, err := readyz(second)
			if err == nil && !strings.Contains(text, " standby") {
				err = errors.New(text)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}}, nil)
	if err == nil || !strings.Contains(err.Error(), "another process runs it now") {
		t.Errorf("error %v\n%s", err, out)
	}
	s.ready(s.node) // it was seen when it held the lease, before it made the Node
	again.end()
	if left := s.onRemote(); len(left) > 0 {
		t.Errorf("left on the remote: %v", left)
	}
	s.must(s.admin.CoreV1().Nodes().Delete(ctx, s.node, metav1.DeleteOptions{}))
}

// The exit status tells a removal whose time was over from all other errors.
func TestExitStatus(t *testing.T) {
	over := fmt.Errorf("sweep: %w", errors.Join(removal.ErrTime, errors.New("secrets are not listed yet")))
	for want, err := range map[int]error{
		1:  sayRemains(t.Context(), func(string) {}, nil, nil, errors.New("refused")),
		75: sayRemains(t.Context(), func(string) {}, nil, nil, over),
	} {
		if got := exitStatus(fmt.Errorf("run: %w", err)); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}
