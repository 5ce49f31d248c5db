package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// ailing is a node whose pods' host something is wrong with.
type ailing struct {
	*life
	h *containerdHost
	// key is the file of the key that the node logs in with.
	key string
	// late counts the pods that were bound to the node while it was not ready.
	late int
}

// newAiling makes a host and a node of it that does not run yet.
func newAiling(t *testing.T, c *cluster, name string, options ...func(*remotehost.Config)) *ailing {
	t.Helper()
	h := newContainerdHost(t, options...)
	private, err := os.ReadFile(h.KeyFile())
	if err != nil {
		t.Fatal(err)
	}
	a := &ailing{h: h, key: filepath.Join(t.TempDir(), "id")}
	a.life = &life{T: t, c: c, namespace: c.namespace(t, name), remote: remote{mounts: true}}
	a.login(private)
	a.n = newNode(t, c, name, strings.Replace(h.section(), h.KeyFile(), a.key, 1))
	return a
}

// login changes the key that the node logs in with.
func (a *ailing) login(private []byte) {
	a.Helper()
	a.must(os.WriteFile(a.key, private, 0o600))
}

// start starts the node, with a pod that runs from then on.
func (a *ailing) start() {
	a.Helper()
	a.n.start()
	a.n.ready()
	a.create(a.pod(forever))
	a.until("the pod is Ready", isReady)
}

// notReady waits until the Node is not Ready for a reason, in words that have these.
func (a *ailing) notReady(reason string, words ...string) {
	a.Helper()
	wait.For(a.T, patience, "node "+a.n.name+" says "+reason, func() error {
		node, err := a.c.client.CoreV1().Nodes().Get(a.Context(), a.n.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type != corev1.NodeReady {
				continue
			}
			if c.Status == corev1.ConditionFalse && c.Reason == reason && has(c.Message, words) {
				a.Logf("Ready is False, %s: %s", c.Reason, c.Message)
				return nil
			}
			return fmt.Errorf("ready is %s, %s: %s; want False, %s with %q", c.Status, c.Reason, c.Message, reason, words)
		}
		return errors.New("it has no condition Ready")
	})
}

// bound makes a pod that stands bound to the node, whatever state that is in, as
// one that the scheduler bound a moment earlier.
func (a *ailing) bound(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	a.Helper()
	return a.create(a.pod(forever, append([]func(*corev1.Pod){func(pod *corev1.Pod) {
		pod.Name, pod.Spec.NodeName = name, a.n.name
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}}, change...)...))
}

// runs waits until a pod is Ready.
func (a *ailing) runs(name string) {
	a.Helper()
	wait.Pod(a, a.c.client, a.namespace, name, patience, "Ready", isReady)
}

// recovers runs a fault: what it does makes the node not Ready, what it returns
// takes the cause away. A pod that was bound meanwhile then starts, those that ran
// still do, never restarted, and the process is the same one.
func (a *ailing) recovers(fault string, f func() (mend func())) {
	a.Helper()
	mend := f()
	a.late++
	late := fmt.Sprintf("late-%d", a.late)
	a.bound(late)
	mend()
	mended := time.Now()
	a.n.ready()
	a.runs(late)
	a.Logf(
		"after %s: Ready, and the pod that waited too, within %s", fault, time.Since(mended).Round(100*time.Millisecond),
	)
	select {
	case <-a.n.ran.Done():
		a.Fatalf("after %s: %v", fault, a.n.ran.Err())
	default:
	}
	a.until("the pod that ran runs on", func(pod *corev1.Pod) error {
		if err := isReady(pod); err != nil {
			return err
		}
		return neverRestarted(pod)
	})
}

// another makes a key: the private one as OpenSSH keeps it, and its fingerprint.
func (a *ailing) another() (private, authorized []byte, fingerprint string) {
	a.Helper()
	public, secret, err := ed25519.GenerateKey(rand.Reader)
	a.must(err)
	block, err := ssh.MarshalPrivateKey(secret, "another")
	a.must(err)
	sshPublic, err := ssh.NewPublicKey(public)
	a.must(err)
	return pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(sshPublic), ssh.FingerprintSHA256(sshPublic)
}

// TestBadInputOverSSH: whatever is wrong with a pods' host is told of in words that
// a user can act on, and when it is put right everything goes on by itself.
func TestBadInputOverSSH(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 150*time.Second)
	c := theCluster(t)
	together(t, []row[*ailing]{
		{"ssh-login", badLogin},
		{"ssh-runtime", badRuntime},
		{"ssh-power", noPower},
	}, row[*ailing].title, func(t *testing.T, r row[*ailing]) { r.run(newAiling(t, c, r.name)) })
}

// badLogin: the host refuses our key, then it shows another key than before.
func badLogin(a *ailing) {
	right, err := os.ReadFile(a.key)
	a.must(err)
	wrong, authorized, fingerprint := a.another()
	address := a.h.Link().Address()

	// A configuration that cannot work is refused at once.
	a.login(wrong)
	line := a.n.refused()
	a.Log(line)
	if words := []string{"root@" + address, fingerprint, a.key, "authorized_keys"}; !has(line, words) {
		a.Errorf("the error does not say all of %q", words)
	}
	a.login(right)
	a.start()

	a.recovers("another authorized key", func() func() {
		a.must(os.WriteFile(a.h.Path(filepath.Join("/", remotehost.Root, ".ssh", "authorized_keys")), authorized, 0o600))
		a.h.Link().Reset() // who is logged in stays so
		a.notReady(
			"BackendDenied", "root@"+address, "the host refuses the user or every key", "("+a.key+")", "authorized_keys",
		)
		return func() { a.login(wrong) } // which is the right one now
	})
	a.recovers("another host key", func() func() {
		known := hostFingerprint(a)
		a.must(a.h.ChangeHostKey(a.Context()))
		a.notReady(
			"BackendUnreachable", "host key has changed", a.h.KnownHostsFile()+":1", known, hostFingerprint(a), "ssh-keygen -R",
		)
		return func() { a.must(a.h.TrustHostKey()) }
	})
}

// hostFingerprint is that of the key that the host shows.
func hostFingerprint(a *ailing) string {
	a.Helper()
	line, err := a.h.KnownHostsLine(a.h.Link().Address())
	a.must(err)
	_, _, public, _, _, err := ssh.ParseKnownHosts([]byte(line))
	a.must(err)
	return ssh.FingerprintSHA256(public)
}

// badRuntime: containerd is down, then something listens at its socket that does
// not speak CRI v1, as a containerd before 1.6 or with its cri plugin disabled.
func badRuntime(a *ailing) {
	a.start()
	a.recovers("no containerd", func() func() {
		a.must(a.h.KillContainerd(a.Context()))
		a.notReady("BackendUnreachable", "reach the container runtime at "+a.h.Endpoint(), "containerd.sock", "start")
		return func() { a.must(a.h.StartContainerd(a.Context())) }
	})
	a.recovers("no CRI", func() func() {
		a.must(a.h.KillContainerd(a.Context()))
		a.must(os.Remove(a.h.Socket()))
		listener, err := net.Listen("unix", a.h.Socket())
		a.must(err)
		server := grpc.NewServer() // which knows no service
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		a.notReady(
			"BackendUnreachable", a.h.Endpoint(), "does not speak CRI v1", "containerd 1.6 or newer", "disabled_plugins",
		)
		return func() {
			server.Stop()
			a.must(<-served)
			a.must(a.h.StartContainerd(a.Context()))
		}
	})
}

// noPower: the host is off, first while burstlet runs, then when it is started.
func noPower(a *ailing) {
	a.start()
	address := a.h.Link().Address()
	a.must(a.h.PowerOff())
	a.notReady("BackendUnreachable", address, "its pods may well run", "check the remote and the network to it")
	a.bound("late")
	a.must(a.h.PowerOn(a.Context()))
	a.n.ready()
	a.runs("late")
	a.until("the pod runs again", func(pod *corev1.Pod) error {
		if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 1 {
			return fmt.Errorf("it was restarted %d times, want once", restarts)
		}
		return isReady(pod)
	})

	a.n.stop()
	a.must(a.h.PowerOff())
	a.n.start()
	a.notReady("BackendUnreachable", address)
	a.bound("later")
	a.must(a.h.PowerOn(a.Context()))
	a.n.ready()
	a.runs("late")
	a.runs("later")

	// One that was never there before.
	a.n.stop()
	ctx := a.Context()
	a.must(a.c.client.CoreV1().Nodes().Delete(ctx, a.n.name, metav1.DeleteOptions{}))
	a.must(a.h.PowerOff())
	a.n.start()
	a.notReady("KubeletNotReady", "has not answered yet", address)
	a.must(a.h.PowerOn(context.WithoutCancel(ctx)))
	a.n.ready()
}
