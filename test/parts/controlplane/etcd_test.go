package controlplane_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// mark makes a namespace, trying again while etcd elects.
func mark(t *testing.T, admin kubernetes.Interface, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	wait.For(t, patience, "make namespace "+name, func() error {
		_, err := admin.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = nil // the answer to an earlier try was lost
		}
		return err
	})
}

// has says whether there is a namespace.
func has(t *testing.T, admin kubernetes.Interface, name string) bool {
	t.Helper()
	_, err := admin.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// TestEtcdElectsAnotherLeader: of three members the leading one is killed, twice. Another
// leads, what was written is there, and the member comes back.
func TestEtcdElectsAnotherLeader(t *testing.T) {
	lane.From(t, lane.All)
	cfg := bare()
	cfg.EtcdMembers = 3
	cp := cptest.New(t, cfg)
	admin := client(t, cp.AdminConfig())
	for i := range 2 {
		before := fmt.Sprint("before-", i)
		mark(t, admin, before)
		pid := cp.PIDs()
		killed, err := cp.KillEtcdLeader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid[killed])); pid[killed] == 0 || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("of %v %s is said to be killed: %v", pid, killed, err)
		}
		var now string
		wait.For(t, patience, "another leader", func() error {
			now, err = cp.EtcdLeader(t.Context())
			return err
		})
		if now == killed {
			t.Errorf("%s leads, which was killed", now)
		}
		mark(t, admin, fmt.Sprint("after-", i))
		if !has(t, admin, before) {
			t.Errorf("namespace %s is gone", before)
		}
		if err := cp.StartEtcdMember(t.Context(), killed); err != nil {
			t.Fatal(err)
		}
		if err := cp.StartEtcdMember(t.Context(), killed); err == nil {
			t.Error("a member was started twice")
		}
	}
	again := cp.PIDs()
	if len(again) != 4 {
		t.Errorf("processes %v, want three members and an API server", again)
	}
	if err := cp.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, pid := range again {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind: %v", name, err)
		}
	}
}

// TestRestore: what was there at the backup is there again, what came later is not, and the
// API server is where it was.
func TestRestore(t *testing.T) {
	lane.From(t, lane.All)
	cp := cptest.New(t, bare())
	admin := client(t, cp.AdminConfig())
	url, dir := cp.URL(), filepath.Join(t.TempDir(), "backup")
	mark(t, admin, "earlier")
	if err := cp.Backup(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	mark(t, admin, "later")
	if err := admin.CoreV1().Namespaces().Delete(t.Context(), "earlier", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cp.Restore(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	ns, err := admin.CoreV1().Namespaces().Get(t.Context(), "earlier", metav1.GetOptions{})
	if err != nil || ns.DeletionTimestamp != nil {
		t.Errorf("the earlier namespace is %v: %v", ns, err)
	}
	if has(t, admin, "later") {
		t.Error("the later namespace is there")
	}
	if cp.URL() != url {
		t.Errorf("URL was %s and is %s", url, cp.URL())
	}
	mark(t, admin, "later")
}
