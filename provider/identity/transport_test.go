package identity

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// whoServer says with which certificate it is called, by serial number. GET
// /stream says it for each line that it is told to write.
func whoServer(t *testing.T) (url string, a *authority, write chan struct{}) {
	t.Helper()
	a = newAuthority(t)
	write = make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.TLS.PeerCertificates[0].SerialNumber, " ", r.Proto)
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		for {
			_, _ = fmt.Fprintln(w, r.TLS.PeerCertificates[0].SerialNumber)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-write:
			case <-r.Context().Done():
				return
			}
		}
	})
	s := httptest.NewUnstartedServer(mux)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{*a.tls(subject("api"), time.Now().Add(time.Hour), "api.test")},
		ClientAuth:   tls.RequireAnyClientCert,
	}
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL, a, write
}

func TestCallsMoveToANewCertificateAndNoneFails(t *testing.T) {
	url, a, write := whoServer(t)
	r := must(newRotating(&rest.Config{
		Host: url, TLSClientConfig: rest.TLSClientConfig{CAData: a.pem(), ServerName: "api.test"},
	}))(t)
	t.Cleanup(r.CloseIdleConnections)
	call := func(path string) *http.Response {
		t.Helper()
		resp := must(r.RoundTrip(must(http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil))(t)))(t)
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	soon, later := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	first, second := a.tls(subject("n1"), soon), a.tls(subject("n1"), later)
	r.use(first)
	stream := bufio.NewScanner(call("/stream").Body)
	line := func() string {
		if !stream.Scan() {
			return fmt.Sprint("ended: ", stream.Err())
		}
		return stream.Text()
	}
	if got := line(); got != first.Leaf.SerialNumber.String() {
		t.Fatalf("stream of %s", got)
	}
	if left, ok := r.expire(time.Now()); ok {
		t.Errorf("the certificate in use is to be closed in %v", left)
	}

	r.use(second)
	want := second.Leaf.SerialNumber.String() + " HTTP/2.0"
	if got := must(io.ReadAll(call("/").Body))(t); string(got) != want {
		t.Errorf("after the change the server sees %s, not %s", got, want)
	}
	select {
	case write <- struct{}{}:
	case <-time.After(patience):
		t.Fatal("a call under way was cut off by the change")
	}
	if got := line(); got != first.Leaf.SerialNumber.String() {
		t.Errorf("a call under way: %s", got)
	}
	if left, ok := r.expire(time.Now()); !ok || left > time.Hour || left < 50*time.Minute {
		t.Errorf("the former certificate expires in %v, %v", left, ok)
	}

	if left, ok := r.expire(soon.Add(2 * time.Second)); ok {
		t.Fatalf("still there, for %v", left)
	}
	if got := line(); got[:5] != "ended" {
		t.Errorf("a stream outlives its certificate: %s", got)
	}
	if got := must(io.ReadAll(call("/").Body))(t); string(got) != want {
		t.Errorf("after that the server sees %s, not %s", got, want)
	}
}

func TestCredentialIsAsValidAsItsCertificate(t *testing.T) {
	r := must(newRotating(&rest.Config{}))(t)
	if r.valid(time.Now()) {
		t.Error("valid without a certificate")
	}
	end := time.Now().Add(time.Minute)
	r.use(newAuthority(t).tls(subject("n1"), end))
	if !r.valid(time.Now()) || r.valid(end.Add(time.Second)) {
		t.Error("valid for another time than the certificate")
	}
}

func TestServerMustHaveACertificateOfItsCA(t *testing.T) {
	url, a, _ := whoServer(t)
	for name, conf := range map[string]rest.TLSClientConfig{
		"another CA":   {CAData: newAuthority(t).pem(), ServerName: "api.test"},
		"another name": {CAData: a.pem(), ServerName: "other.test"},
	} {
		r := must(newRotating(&rest.Config{Host: url, TLSClientConfig: conf}))(t)
		r.use(a.tls(subject("n1"), time.Now().Add(time.Hour)))
		if resp, err := r.RoundTrip(must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)); err == nil {
			resp.Body.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := newRotating(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "/nonexistent"}}); err == nil {
		t.Error("a CA that cannot be read")
	}
}
