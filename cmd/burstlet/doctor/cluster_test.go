package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/kit/ports"
)

func verdictText(f backend.Finding) string {
	verdict := "FAIL"
	if f.OK {
		verdict = "ok"
	} else if f.Warn {
		verdict = "warn"
	}
	return verdict + " " + f.What + " " + findingText(f)
}

// wantFinding compares the beginning of a finding, and wants advice where something
// is wrong.
func wantFinding(t *testing.T, f backend.Finding, want string) {
	t.Helper()
	if got := verdictText(f); !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	if !f.OK && f.Advice == "" {
		t.Errorf("%s: nothing says what to do", verdictText(f))
	}
}

func TestDoctorKnowsWhichServersANodeMayJoin(t *testing.T) {
	const tail = "the API server has %s, the node v1.36.3"
	for server, want := range map[string]string{
		"v1.36.3": "ok version " + tail, "v1.36.0-eks-1a2b3c": "ok version " + tail, "v1.37.9": "ok version " + tail,
		"v1.38.0": "warn version " + tail + ": 1.34 to 1.37 were tried: a kubelet may join this server too, but",
		"v1.39.9": "warn version " + tail + ": 1.34 to 1.37 were tried: a kubelet may join this server too, but",
		"v1.40.0": "warn version " + tail +
			": 1.34 to 1.37 were tried, and this server is too new for the node: take a newer burstlet",
		"v1.35.2": "warn version " + tail + ": 1.34 to 1.37 were tried: this server drops",
		"v1.29.0": "warn version " + tail,
		"v1.28.9": "FAIL version " + tail + ": 1.34 to 1.37 were tried, and sidecars need at least 1.29",
		"v2.0.0":  "FAIL version " + tail,
	} {
		wantFinding(t, judgeServer("v1.36.3", &apiversion.Info{GitVersion: server}), strings.ReplaceAll(want, "%s", server))
	}
	wantFinding(
		t, judgeServer("v1.36.3", &apiversion.Info{GitVersion: "main"}),
		`warn version the API server calls its version "main"`,
	)
}

func TestDoctorComparesClocks(t *testing.T) {
	for _, tc := range []struct {
		skew, doubt time.Duration
		want        string
	}{
		{time.Second, time.Second / 2, "ok clock the API server's is 1s off, give or take 500ms"},
		{4 * time.Second, 3 * time.Second, "ok "},
		{-4 * time.Second, time.Second, "warn clock the API server's is -4s off"},
		{-time.Hour, time.Second, "FAIL clock "},
	} {
		wantFinding(t, judgeClock(versionReply{dated: true, clock: backend.Clock{Skew: tc.skew, Doubt: tc.doubt}}), tc.want)
	}
}

func TestDoctorTellsWhoseCredentialItIs(t *testing.T) {
	for name, tc := range map[string]struct {
		user      string
		groups    []string
		bootstrap bool
		want      string
	}{
		"own": {
			user: "system:node:n", groups: []string{"system:nodes"}, want: "ok user system:node:n, the node's own",
		},
		"another's": {
			user: "system:node:m", groups: []string{"system:nodes"},
			want: "FAIL user system:node:m, the credential of another node: node.name must be m",
		},
		"no group": {user: "system:node:n", want: "FAIL user system:node:n without the group system:nodes"},
		"pod": {
			user: "system:serviceaccount:burstlet:runner",
			want: "warn user ServiceAccount burstlet/runner, whose rights RBAC cannot limit",
		},
		"admin": {
			user: "kubernetes-admin", groups: []string{"system:masters"},
			want: "warn user kubernetes-admin in group system:masters, who may do everything",
		},
		"somebody": {user: "alice", want: "warn user alice, neither"},
		"nobody":   {user: "system:anonymous", want: "FAIL user nobody"},
		"bootstrap": {
			user: "system:bootstrap:abcdef", bootstrap: true,
			want: "ok user system:bootstrap:abcdef, which asks for the node's own",
		},
		"wrongly named": {
			user: "system:bootstrap:abcdef",
			want: "FAIL user system:bootstrap:abcdef, a bootstrap token: name its kubeconfig as bootstrapKubeconfig",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantFinding(t, userFinding(whoami{tc.user, tc.groups}, tc.bootstrap, "n"), tc.want)
		})
	}
}

// testCert makes a certificate and its key in PEM.
func testCert(t *testing.T, cn string, from, until time.Time, ips ...string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: cn}, NotBefore: from, NotAfter: until,
	}
	for _, ip := range ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{
		Type: "PRIVATE KEY", Bytes: keyDER,
	})
}

func TestDoctorTellsHowLongACredentialIsGood(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	cert := func(days int) []byte {
		out, _ := testCert(t, "system:node:n", now.AddDate(-2, 0, 0), now.AddDate(0, 0, days))
		return out
	}
	token := func(d time.Duration) string {
		claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, now.Add(d).Unix()))
		return "e30." + claims + ".canary"
	}
	tokenFile := saved(t, "token", token(time.Hour))
	for name, tc := range map[string]struct {
		cred credential
		want string
	}{
		"certificate": {
			credential{rest: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: cert(90)}}},
			"ok credential F: a client certificate until 2026-08-30 12:00 UTC",
		},
		"soon over": {
			credential{rest: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: cert(9)}}},
			"warn credential F: a client certificate until 2026-06-10 12:00 UTC, which nobody rotates",
		},
		"over": {
			credential{rest: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: cert(-1)}}},
			"FAIL credential F: a client certificate, which expired on 2026-05-31 12:00 UTC",
		},
		"issued": {
			credential{issued: true, rest: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: cert(1)}}},
			"ok credential F: a client certificate until 2026-06-02 12:00 UTC, rotated",
		},
		"file": {
			credential{rest: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: "/absent"}}},
			"FAIL credential F: open /absent: no such file",
		},
		"no PEM": {
			credential{rest: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x")}}},
			"FAIL credential F: read the client certificate: no certificate",
		},
		"token": {
			credential{rest: &rest.Config{BearerToken: token(-time.Hour)}},
			"FAIL credential F: a token, which expired on 2026-06-01 11:00 UTC",
		},
		"opaque token": {credential{rest: &rest.Config{BearerToken: "abcdef.canary"}}, "ok credential F: a token"},
		"bootstrap": {
			credential{bootstrap: true, rest: &rest.Config{BearerToken: token(time.Hour)}},
			"ok credential F: a token until 2026-06-01 13:00 UTC",
		},
		"rotated token": {
			credential{rest: &rest.Config{BearerTokenFile: tokenFile, BearerToken: "canary"}},
			"ok credential F: a token until 2026-06-01 13:00 UTC, rotated",
		},
		"program": {
			credential{rest: &rest.Config{ExecProvider: &api.ExecConfig{Command: "aws"}}},
			"ok credential F: from the program aws",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.cred.source = "F"
			f := expiryFinding(tc.cred, now)
			wantFinding(t, f, tc.want)
			if strings.Contains(verdictText(f), "canary") {
				t.Error("a secret is told")
			}
		})
	}
}

func TestDoctorTellsANodeFromAnothers(t *testing.T) {
	node := func(version string, labels map[string]string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels},
			Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: version}},
		}
	}
	virtual := map[string]string{"type": "virtual-kubelet"}
	wantFinding(
		t, nodeFinding(node("v1.36.0", nil), false),
		"FAIL node this node name is taken: node n belongs to another kubelet (version v1.36.0): choose another node name",
	)
	wantFinding(
		t, nodeFinding(node("v1.15.2-vk", virtual), false),
		"warn node Node n is another virtual kubelet's (version v1.15.2-vk)",
	)
	wantFinding(
		t, nodeFinding(node("v1.36.3+burstlet-1.0", virtual), false), "ok node Node n is there, and nobody runs it now",
	)
	wantFinding(t, nodeFinding(node("v1.36.3+burstlet-1.0", virtual), true), "ok node Node n is run by a burstlet now")
	wantFinding(t, nodeFinding(node("", nil), false), "ok node Node n is there")
}

func TestDoctorTellsALeaseThatHolds(t *testing.T) {
	now := time.Now()
	lease := func(ago time.Duration, seconds int32) *coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-ago))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &at, LeaseDurationSeconds: &seconds}}
	}
	if !holds(lease(5*time.Second, 8), now, time.Minute) || holds(lease(9*time.Second, 8), now, time.Minute) ||
		holds(&coordinationv1.Lease{}, now, time.Minute) {
		t.Error("wrong")
	}
}

func TestDoctorJudgesTheAddressOfANode(t *testing.T) {
	own := []net.Addr{&net.IPNet{IP: net.ParseIP("127.0.0.1")}, &net.IPNet{IP: net.ParseIP("192.0.2.7")}}
	for _, tc := range []struct{ address, server, want string }{
		{
			"192.0.2.7", "https://192.0.2.1:6443",
			"ok address 192.0.2.7, F; whether the API server reaches it cannot be known from here",
		},
		{"192.0.2.9", "https://192.0.2.1:6443", "warn address 192.0.2.9, F, which this machine does not have"},
		{"127.0.0.1", "https://192.0.2.1:6443", "FAIL address 127.0.0.1, F: on another machine that is itself"},
		{"127.0.0.1", "https://127.0.0.1:6443", "ok address 127.0.0.1, F: the API server is on this machine too"},
		{"127.0.0.1", "localhost:8080", "ok "},
		{"::1", "https://[::1]:6443/prefix", "ok "},
		{"host", "", `FAIL address "host" is no IP address`},
	} {
		wantFinding(t, addressFinding(tc.address, "F", tc.server, own), tc.want)
	}
}

func TestDoctorJudgesAServingCertificateInFiles(t *testing.T) {
	now := time.Now()
	write := func(cert, key []byte) (string, string) {
		return saved(t, "tls.crt", string(cert)), saved(t, "tls.key", string(key))
	}
	for name, tc := range map[string]struct {
		from, until time.Time
		ip, want    string
	}{
		"good":          {now.Add(-time.Hour), now.Add(time.Hour), "192.0.2.7", "ok serving certificate "},
		"other address": {now.Add(-time.Hour), now.Add(time.Hour), "192.0.2.9", "warn serving certificate "},
		"over":          {now.Add(-time.Hour), now.Add(-time.Minute), "192.0.2.7", "FAIL serving certificate "},
		"not yet":       {now.Add(time.Hour), now.Add(2 * time.Hour), "192.0.2.7", "FAIL serving certificate "},
	} {
		t.Run(name, func(t *testing.T) {
			certFile, keyFile := write(testCert(t, "x", tc.from, tc.until, tc.ip))
			wantFinding(t, filesFinding(certFile, keyFile, "192.0.2.7", now), tc.want)
		})
	}
	cert, _ := testCert(t, "x", now, now.Add(time.Hour))
	_, key := testCert(t, "x", now, now.Add(time.Hour))
	certFile, keyFile := write(cert, key)
	wantFinding(t, filesFinding(certFile, keyFile, "", now), "FAIL serving certificate tls: private key does not match")
	wantFinding(t, filesFinding(certFile, "/absent", "", now), "FAIL serving certificate open /absent: no such file")
}

func TestDoctorLooksWhetherThePortIsFree(t *testing.T) {
	port := ports.Free(t)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("127.0.0.1:%d", port)
	wantFinding(t, portFinding(t.Context(), "127.0.0.1", port, false), "FAIL port "+at+" is in use by another program")
	wantFinding(t, portFinding(t.Context(), "127.0.0.1", port, true), "warn port "+at+" is in use")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, portFinding(t.Context(), "127.0.0.1", port, false), "ok port "+at+" is free")
	wantFinding(
		t, portFinding(t.Context(), "192.0.2.77", port, false),
		"FAIL port 192.0.2.77:"+fmt.Sprint(port)+": this machine does not have the address",
	)
}

func TestDoctorLooksWhetherCertificatesCanBeKept(t *testing.T) {
	dir := t.TempDir()
	wantFinding(t, directoryFinding(filepath.Join(dir, "a", "b")), "ok certificate directory "+dir)
	wantFinding(t, directoryFinding(""), "ok certificate directory none")
	if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
		t.Error("doctor made a directory")
	}
	below := filepath.Join(saved(t, "file", ""), "x")
	wantFinding(t, directoryFinding(below), "FAIL certificate directory "+below+": this user may not write to ")
}
