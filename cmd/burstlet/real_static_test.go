package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/link"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// Static pods run before there is an API server, and are shown there once it has come. The
// process has two nodes, so that it starts one again whose patience was over.
func TestRealStaticPodsWithoutTheAPI(t *testing.T) {
	lane.From(t, lane.Gate)
	t.Parallel()
	s := newStage(t)
	address := fmt.Sprintf("127.0.0.1:%d", ports.Free(t)) // where nobody listens yet
	manifests := t.TempDir()
	if err := os.WriteFile(filepath.Join(manifests, "web.yaml"), []byte(`
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {containers: [{name: c, image: busybox, command: [sleep, infinity]}]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	var nodes strings.Builder
	for _, name := range []string{"alone-a", "alone-b"} {
		cred, err := s.cp.NodeCredential(name)
		if err != nil {
			t.Fatal(err)
		}
		cred.Host = "https://" + address
		fmt.Fprintf(&nodes, "- {node: {name: %s, identity: %[1]s}, kubeconfig: %s, kubeletAPI: {port: %d}}\n",
			name, cptest.Kubeconfig(t, cred), ports.Free(t))
	}
	p := s.run(s.configure(fmt.Sprintf(`
node: {internalIP: 127.0.0.1}
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
kubeletAPI: {address: 127.0.0.1, selfSigned: true, clientCAFile: %%CA%%}
pods: {staticPodPath: %s}
nodes:
%s`, manifests, nodes.String())))
	wait.For(t, patience, "static pods to run without an API server", func() error {
		if runs := s.runs(); runs != 2 {
			return fmt.Errorf("%d run", runs)
		}
		return nil
	})
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	way := link.Serve(listener, link.To(strings.TrimPrefix(s.cp.URL(), "https://")))
	t.Cleanup(func() {
		if err := way.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"web-alone-a", "web-alone-b"} {
		s.podReady(name)
		pod, err := s.admin.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || pod.Annotations[corev1.MirrorPodAnnotationKey] == "" {
			t.Errorf("%s is no mirror pod: %v, %v", name, pod, err)
		}
	}
	if runs, found := s.runs(), s.remote.Audit().Violations; runs != 2 || len(found) > 0 {
		t.Errorf("%d pods run on the remote, violations %v", runs, found)
	}
	p.end() // while it can still write
}

// runs is how many pods live on the remote.
func (s *stage) runs() (n int) {
	for _, f := range s.remote.Facts() {
		if f.Live {
			n++
		}
	}
	return n
}
