package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	client "k8s.io/client-go/tools/remotecommand"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/burstlet/burstlet/provider/nodeuser"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// forger serves a node's kubelet API as a thief does: it makes up what is asked for, and keeps what
// it hears.
type forger struct {
	mu    sync.Mutex
	heard []string
}

func (f *forger) keep(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, what)
}

func (f *forger) has(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Contains(strings.Join(f.heard, "\n"), what)
}

// ServeHTTP implements [http.Handler].
func (f *forger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.keep(r.Header.Get("Authorization"))
	if !strings.HasPrefix(r.URL.Path, "/exec/") {
		_, _ = io.WriteString(w, "forged")
		return
	}
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(
		w, r, f, "", "", "c", nil, opts, patience, patience, remotecommand.SupportedStreamingProtocols,
	)
}

// ExecInContainer implements [remotecommand.Executor].
func (f *forger) ExecInContainer(_ context.Context, _, _, _ string, _ []string, in io.Reader, out, _ io.WriteCloser,
	_ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	typed := make([]byte, 64)
	n, err := in.Read(typed)
	if err != nil {
		return err
	}
	f.keep(string(typed[:n]))
	_, err = io.WriteString(out, "forged")
	return err
}

// TestRealThiefAnswersForPods: who acts as a node can have callers sent to a port of their own, where
// kubectl logs and exec get what they make up, and who types or scrapes with a token tells it to them.
func TestRealThiefAnswersForPods(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const name, typed, token = "answered-for", "hunter2", "of-a-scraper"
	s.inhabited(name)
	as := s.account("answers", name, "serviceaccount.yaml")
	as.Impersonate = rest.ImpersonationConfig{UserName: nodeuser.Name(name), Groups: []string{nodeuser.Group}}
	f := &forger{}
	server := httptest.NewTLSServer(f)
	t.Cleanup(server.Close)
	at := server.Listener.Addr().(*net.TCPAddr)
	moved := patchNode(name, fmt.Sprintf(
		`{"status":{"addresses":[{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`,
		at.IP, at.Port), "status")
	thief := cptest.Client(t, as)
	wait.For(t, patience, "the Node leads to the thief", func() error { return moved(t.Context(), thief) })

	logs, err := s.admin.CoreV1().Pods(robbed).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || string(logs) != "forged" {
		t.Errorf("kubectl logs shows %q, %v", logs, err)
	}
	url := s.admin.CoreV1().RESTClient().Get().Resource("pods").Namespace(robbed).Name(name).SubResource("exec").
		VersionedParams(
			&corev1.PodExecOptions{Stdin: true, Stdout: true, Command: []string{"passwd"}}, scheme.ParameterCodec,
		).URL()
	exec, err := client.NewWebSocketExecutor(s.cp.AdminConfig(), http.MethodGet, url.String())
	s.must(err)
	var shown bytes.Buffer
	err = exec.StreamWithContext(t.Context(), client.StreamOptions{Stdin: strings.NewReader(typed), Stdout: &shown})
	if err != nil || shown.String() != "forged" || !f.has(typed) {
		t.Errorf("kubectl exec shows %q, %v; the thief has what was typed: %v", &shown, err, f.has(typed))
	}

	// A scraper finds the node by its address, as Prometheus does.
	node, err := s.admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	s.must(err)
	to := net.JoinHostPort(
		node.Status.Addresses[0].Address, fmt.Sprint(node.Status.DaemonEndpoints.KubeletEndpoint.Port),
	)
	scrape, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+to+"/metrics", nil)
	s.must(err)
	scrape.Header.Set("Authorization", "Bearer "+token)
	resp, err := server.Client().Do(scrape)
	s.must(err)
	s.must(resp.Body.Close())
	if !f.has(token) {
		t.Error("the thief does not have the scraper's token")
	}
}
