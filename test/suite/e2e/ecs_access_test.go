package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// taskAccess are about reaching the API from a task, and a task from outside.
var taskAccess = []row[*taskLife]{
	{"api client", apiClient},
	{"cp of a binary file", copyBinary},
	{"exec in images without a shell", execWithoutShell},
	{"top", topOfTask},
}

var getOptions metav1.GetOptions

func deleteOptions(grace int64) metav1.DeleteOptions {
	return metav1.DeleteOptions{GracePeriodSeconds: &grace}
}

// randomText is one that nobody has seen.
func randomText(t *testing.T) string {
	t.Helper()
	b := make([]byte, 24)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("canary%x", b)
}

// pullSecret makes one that opens the private registry.
func (l *taskLife) pullSecret(name string) {
	l.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte(privateUser + ":" + l.s.password))
	_, err := l.c.client.CoreV1().Secrets(l.namespace).Create(l.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{
			corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, privateDomain, auth),
		},
	}, metav1.CreateOptions{})
	l.must(err)
}

// apiClient: an API client in the task's own network asks with the token that is
// mounted, at the address that is in its environment. It may be quicker than the
// right that it has, and than its pod's address.
func apiClient(l *taskLife) {
	l.c.allow(
		l.T, l.namespace, "default",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
	)
	l.create(l.pod(shell(`echo api $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT
		until kubectl get pod "$ME" -o 'jsonpath={.status.podIP}' | grep -q .; do sleep 1; done
		kubectl get pod "$ME" -o 'jsonpath={.metadata.name} {.status.podIP} {.spec.nodeName}{"\n"}'
		kubectl auth whoami -o 'jsonpath={.status.userInfo.username}{"\n"}'; kubectl get secrets 2>&1 | grep -o "cannot list resource \"secrets\""`),
		func(pod *corev1.Pod) {
			c := &pod.Spec.Containers[0]
			c.Image, c.Env = toolsRef, []corev1.EnvVar{{Name: "ME", ValueFrom: field("metadata.name")}}
		}))
	pod := l.until("Ready", isReady)
	l.says("app", "api "+strings.TrimPrefix(l.c.URL(), "https://"), "subject "+pod.Status.PodIP+" "+l.n.name,
		"system:serviceaccount:"+l.namespace+":default", `cannot list resource "secrets"`)
}

// copyBinary: every byte comes there and back.
func copyBinary(l *taskLife) {
	const size = 3 << 20
	l.create(l.pod(forever))
	l.until("Ready", isReady)
	want := make([]byte, size)
	_, err := rand.Read(want)
	l.must(err)
	dir := l.TempDir()
	there, back := filepath.Join(dir, "there"), filepath.Join(dir, "back")
	l.must(os.WriteFile(there, want, 0o600))
	began := time.Now()
	if got := l.kubectl("", "cp", there, "subject:/tmp/file"); got.code != 0 {
		l.Fatalf("copy: %+v", got)
	}
	l.prints(fmt.Sprintf("%x  /tmp/file\n", sha256.Sum256(want)), "exec", "subject", "--", "sha256sum", "/tmp/file")
	copied := time.Now()
	if got := l.kubectl("", "cp", "subject:/tmp/file", back); got.code != 0 {
		l.Fatalf("copy back: %+v", got)
	}
	l.Logf(
		"%d bytes: there in %s, back in %s", size, copied.Sub(began).Round(time.Millisecond),
		time.Since(copied).Round(time.Millisecond),
	)
	got, err := os.ReadFile(back)
	if err != nil || !bytes.Equal(got, want) {
		l.Errorf("%d bytes came back, not the same %d: %v", len(got), size, err)
	}
}

// execWithoutShell: commands run in an image that has nothing but its program.
func execWithoutShell(l *taskLife) {
	root := podSecured(corev1.PodSecurityContext{RunAsUser: new(int64(0))}) // an agent makes directories
	l.create(l.pod([]string{"/burstlet-task", "agent"}, root, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Image = taskImageRef
	}))
	l.until("Ready", isReady)
	got := l.kubectl("", "exec", "subject", "--", "/burstlet-task")
	if got.code == 0 || !strings.Contains(got.out+got.err, "burstlet-task") {
		l.Errorf("its own program: %+v", got)
	}
	if got := l.kubectl("", "exec", "subject", "--", "sh"); got.code == 0 || !strings.Contains(got.err, "sh") {
		l.Errorf("a shell that is not there: %+v", got)
	}
}

// topOfTask: kubectl top, answered by metrics-server.
func topOfTask(l *taskLife) {
	program := cptest.Tool(l.T, binaries.MetricsServer)
	l.create(l.pod([]string{"sh", "-c", "head -c 32m /dev/zero >/tmp/used; while :; do :; done"}, limits("300m", "128Mi")))
	l.until("Ready", isReady)
	l.serveMetrics(program)
	want := regexp.MustCompile(`^subject +app +[1-9]\d*m +[1-9]\d*Mi`)
	args := []string{"top", "pod", "subject", "--containers", "--no-headers"}
	wait.For(l.T, patience, "kubectl "+strings.Join(args, " "), func() error {
		if got := l.kubectl("", args...); !want.MatchString(got.out) {
			return fmt.Errorf("prints %q and %q, want %s", got.out, got.err, want)
		}
		return nil
	})
}
