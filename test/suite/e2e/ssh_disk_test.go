package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
)

// readOnly runs a command that can write to no file system but below the
// directory $1; /proc is no disk.
const readOnly = `set -eu
writable=$1
shift
mount --make-rprivate /
mount --bind "$writable" "$writable"
mounts=$(cut -d' ' -f5 /proc/self/mountinfo)
printf '%s\n' "$mounts" | while read -r point; do
	point=$(printf %b "$point") # spaces are octal
	case $point in
	/proc | /proc/* | "$writable") ;;
	# A mount of this machine that cannot be made read-only is taken away instead.
	*) mount -o remount,bind,ro "$point" 2>/dev/null || umount -l "$point" 2>/dev/null || [ ! -e "$point" ] || {
		echo "mount point $point stays writable" >&2
		exit 1
	} ;;
	esac
done
exec "$@"
`

// TestNothingOnTheWrongDisk: burstlet writes nothing on its own disk, whatever its
// pods have and do; nothing that is burstlet's own is ever on the host's, and
// when it has ended nothing of it is there at all.
func TestNothingOnTheWrongDisk(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 50*time.Second)
	c := theCluster(t)
	h := newContainerdHost(t)
	n := newNode(t, c, "disks", h.section())
	certFile, keyFile := n.servingFiles()
	certs := n.certDirectory()
	if err := os.Mkdir(certs, 0o700); err != nil {
		t.Fatal(err)
	}
	n.edit("selfSigned: true", "certFile: "+certFile+", keyFile: "+keyFile)
	n.edit("\nkubeconfig: ", "\ncertDirectory: "+certs+"\nkubeconfig: ")
	n.within = []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", readOnly, "sh", certs}
	before := h.traces(t)
	n.run()
	onlyWrites(t, n.ran.Pid(), certs)

	l := &life{T: t, c: c, n: n, namespace: c.namespace(t, "disks"), remote: remote{mounts: true}}
	pod := busy(l)
	volumes := path.Join("/var/lib/burstlet/pods", string(pod.UID), "volumes")
	found := h.holding(t, []string{onHost})
	for _, volume := range []string{"login", "scratch"} {
		if !slices.ContainsFunc(found, func(file string) bool {
			return strings.HasPrefix(file, path.Join(volumes, volume)+
				"/")
		}) {
			t.Errorf("what the pod has in its volume %s is not found on the host, but in %q", volume, found)
		}
	}
	own := append(secretsOf(t, keyFile, h.KeyFile()), kubeconfigSecrets(t, n)...)
	if found := h.holding(t, own); len(found) > 0 {
		t.Errorf("on the host %q hold what is burstlet's own", found)
	}
	entries, err := os.ReadDir(certs)
	if err != nil || len(entries) > 0 {
		t.Errorf("the directory of certificates, which the files of an administrator make needless, has %v, %v", entries, err)
	}

	if !slices.ContainsFunc(
		h.newTraces(t, before), func(s string) bool { return strings.Contains(s, "burstlet-helper") },
	) {
		t.Error("the helper that runs on the host is not found: the search is no good")
	}
	l.must(l.pods().Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	l.untilGone(pod.Name)
	n.stop()
	h.sameTraces(t, before, "it was stopped")
	n.run()
	n.kill()
	h.sameTraces(t, before, "it was killed")
}

// onHost is what a pod has that must be on its host's disk.
const onHost = "c2VjcmV0LXRoYXQtYmVsb25ncy10by1hLXBvZA"

// busy runs a pod with volumes of all kinds that burstlet fills, and does to it
// what kubectl can.
func busy(l *life) *corev1.Pod {
	l.Helper()
	l.configMap("settings", map[string]string{"color": "blue"})
	l.secret("login", map[string]string{"password": onHost})
	l.create(l.pod(shell("cat /settings/color; echo; cat /login/password >/scratch/copy && echo copied; "+
		"[ -s /var/run/secrets/kubernetes.io/serviceaccount/token ] && echo token"),
		mount(
			"settings", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: object("settings")}},
		),
		mount("login", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "login"}}),
		mount("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		mount("memory", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})))
	pod := l.until("the pod is Ready", isReady)
	l.says("app", "blue", "copied", "token")
	l.prints("blue\ncopied\ntoken\n", "logs", "subject")
	l.prints("blue", "exec", "subject", "--", "cat", "/settings/color")
	there, back := filepath.Join(l.TempDir(), "there"), filepath.Join(l.TempDir(), "back")
	l.must(os.WriteFile(there, []byte(strings.Repeat("0123456789abcdef", 1<<16)), 0o600))
	l.prints("", "cp", there, "subject:/scratch/there")
	if got := l.kubectl("", "cp", "subject:/scratch/there", back); got.code != 0 {
		l.Fatalf("copy back: %+v", got)
	}
	if same := exec.Command("cmp", there, back).Run(); same != nil {
		l.Errorf("what was copied to the pod and back is something else: %v", same)
	}
	// Contents change while the pod runs, too.
	settings, err := l.c.client.CoreV1().ConfigMaps(l.namespace).Get(l.Context(), "settings", metav1.GetOptions{})
	l.must(err)
	settings.Data["color"] = "green"
	_, err = l.c.client.CoreV1().ConfigMaps(l.namespace).Update(l.Context(), settings, metav1.UpdateOptions{})
	l.must(err)
	wait.For(l.T, patience, "the update arrives", func() error {
		if got := l.kubectl("", "exec", "subject", "--", "cat", "/settings/color"); got.out != "green" {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	return pod
}

// onlyWrites wants every mount that a process sees to be read-only but one, and
// /proc.
func onlyWrites(t *testing.T, pid int, writable string) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	canWrite := map[string]bool{} // what is mounted over another hides it
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		point, err := strconv.Unquote(`"` + f[4] + `"`) // spaces are octal
		if err != nil {
			t.Fatal(err)
		}
		canWrite[point] = !slices.Contains(strings.Split(f[5], ","), "ro")
	}
	if !canWrite[writable] {
		t.Errorf("burstlet cannot write into %s", writable)
	}
	for point, can := range canWrite {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", pid, point)); errors.Is(err, os.ErrNotExist) {
			continue // something that is mounted over it hides it
		}
		if can && point != writable && point != "/proc" && !strings.HasPrefix(point, "/proc/") {
			t.Errorf("burstlet can write into %s", point)
		}
	}
}

// secretsOf are the lines of private keys in PEM.
func secretsOf(t *testing.T, files ...string) (lines []string) {
	t.Helper()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, pemLines(data)...)
	}
	return lines
}

// opensshHead begins the base64 of every key without a passphrase that is in
// OpenSSH's format, the host's own too ("openssh-key-v1").
const opensshHead = "b3BlbnNzaC1rZXktdjE"

// pemLines are those that are found nowhere by chance.
func pemLines(data []byte) (lines []string) {
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); len(line) > 30 && !strings.HasPrefix(line, "-----") &&
			!strings.HasPrefix(line, opensshHead) {
			lines = append(lines, line)
		}
	}
	return lines
}

// kubeconfigSecrets are the node's key and certificate, as they are and as they
// stand in its kubeconfig.
func kubeconfigSecrets(t *testing.T, n *node) (lines []string) {
	t.Helper()
	file := filepath.Join(filepath.Dir(n.config), "kubeconfig")
	cfg, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, auth := range cfg.AuthInfos {
		lines = append(lines, pemLines(auth.ClientKeyData)...)
		lines = append(lines, pemLines(auth.ClientCertificateData)...)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), ": "); strings.HasPrefix(key, "client-") {
			lines = append(lines, value)
		}
	}
	if len(lines) < 6 {
		t.Fatalf("there are only %d lines of secrets in %s", len(lines), file)
	}
	return lines
}

// holding are the files of the host that hold one of the strings: all there are but
// /proc, /sys, network namespaces, and the programs, which are the machine's and
// read-only.
func (h *containerdHost) holding(t *testing.T, what []string) []string {
	t.Helper()
	entries, err := os.ReadDir(h.Path("/"))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-r", "-l", "-F", "-D", "skip", "--exclude-dir=netns", "--exclude-dir=whole-proc", "-f", "-"}
	for _, e := range entries {
		if e.IsDir() && !slices.Contains([]string{"proc", "sys", "usr"}, e.Name()) {
			args = append(args, "/"+e.Name())
		}
	}
	var found []string
	wait.For(t, patience, "search the host", func() error {
		// Over a pipe: the strings must not come to the host's disk.
		cmd := h.Command(t.Context(), "grep", args...)
		cmd.Stdin = strings.NewReader(strings.Join(what, "\n") + "\n")
		out, err := cmd.Output()
		found = strings.Fields(string(out))
		var exit *exec.ExitError
		switch {
		case !errors.As(err, &exit):
			return err
		case exit.ExitCode() == 1: // nowhere
			return nil
		}
		return fmt.Errorf("%w: %s", err, exit.Stderr) // something went away meanwhile
	})
	return found
}

// traces are the files in the places for what is temporary, and the programs that
// run.
func (h *containerdHost) traces(t *testing.T) []string {
	t.Helper()
	cmd := h.Command(t.Context(), "sh", "-c", "find /run /dev/shm /tmp /var/tmp -path /run/containerd -prune -o -path "+
		"/run/netns -prune -o -path /run/whole-proc -prune -o -print; "+
		`for exe in /proc/[0-9]*/exe; do readlink "$exe"; done`)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // the last process was gone already
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	return slices.Compact(lines)
}

// newTraces are those that there were not before.
func (h *containerdHost) newTraces(t *testing.T, before []string) []string {
	t.Helper()
	return slices.DeleteFunc(h.traces(t), func(s string) bool { return slices.Contains(before, s) })
}

// sameTraces wants no others than before, soon.
func (h *containerdHost) sameTraces(t *testing.T, before []string, after string) {
	t.Helper()
	wait.For(t, patience, "nothing of burstlet is on the host after "+after, func() error {
		if left := h.newTraces(t, before); len(left) > 0 {
			return fmt.Errorf("there is %q", left)
		}
		return nil
	})
}
