package doctor

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider"
)

// maxVersionReply is far beyond what /version says.
const maxVersionReply = 64 << 10

// clusterExam diagnoses the cluster of one node.
type clusterExam struct {
	cfg    config.Configuration
	opts   Options
	cred   credential
	client kubernetes.Interface
	// user is who the API server takes us for.
	user whoami
	// skew is how much the API server's clock is ahead of ours.
	skew time.Duration
	// running is true while some burstlet runs the node.
	running bool
	found   []backend.Finding
}

func (e *clusterExam) add(found ...backend.Finding) { e.found = append(e.found, found...) }

// diagnoseCluster diagnoses all that the node needs of its cluster. It stops where
// what follows cannot work. It returns the node's identity too, as far as it can be
// known.
func diagnoseCluster(
	ctx context.Context, c config.Configuration, o Options,
) (found []backend.Finding, identity string) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	e := &clusterExam{cfg: c, opts: o}
	identity = access.StandInIdentity(c)
	if e.enter(ctx) {
		e.credentials(ctx)
		if e.user.name != "" {
			e.rights(ctx)
			e.node(ctx)
			id, err := access.NodeIdentity(ctx, e.client, c, e.cred.rest.Host)
			switch {
			case err == nil:
				identity = id
			case errors.Is(err, access.ErrIdentity):
				e.add(backend.Bad("identity", err.Error(), ""))
			}
		}
		e.election(ctx)
	}
	e.served(ctx)
	return e.found, identity
}

// enter finds the way to the API server and is false where there is none.
func (e *clusterExam) enter(ctx context.Context) bool {
	const what = "cluster"
	var err error
	if e.cred, err = findCredential(e.cfg); err != nil {
		e.add(backend.Bad("credential", err.Error(), ""))
		return false
	}
	e.cred.rest.UserAgent = e.opts.userAgent()
	e.cred.rest.QPS, e.cred.rest.Burst = e.cfg.Client.QPS, e.cfg.Client.Burst
	e.cred.rest.Timeout = access.FirstCallTimeout
	host := e.cred.rest.Host
	reply, err := askVersion(ctx, e.cred.rest)
	if err != nil {
		e.add(backend.Bad(what, fmt.Sprintf("%s: %v", host, err), reachAdvice(err)))
		return false
	}
	e.add(backend.Good(what, "the API server answers at "+host))
	switch {
	case reply.status == http.StatusUnauthorized:
		e.add(backend.Bad("credential", e.cred.source+" is not accepted by the API server",
			"it has expired, or is of another cluster: get another"))
		return false
	case reply.info == nil:
		e.add(backend.Doubtful("version", fmt.Sprintf("the API server does not tell it (%s)", http.StatusText(reply.status)),
			"see /version there"))
	default:
		kubelet, _, _ := strings.Cut(provider.KubeletVersion(""), "+")
		e.add(judgeServer(kubelet, reply.info))
	}
	e.skew = reply.clock.Skew
	e.add(judgeClock(reply))
	if e.client, err = kubernetes.NewForConfig(e.cred.rest); err != nil {
		e.add(backend.Bad(what, err.Error(), ""))
		return false
	}
	return true
}

// versionReply is the API server's answer to the question for its version.
type versionReply struct {
	status int
	info   *apiversion.Info // nil: it did not say
	// dated is false without a date, which tells of the clock.
	dated bool
	clock backend.Clock
}

func askVersion(ctx context.Context, cfg *rest.Config) (reply versionReply, err error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return versionReply{}, fmt.Errorf("use the credential: %w", err)
	}
	base, _, err := rest.DefaultServerURL(cfg.Host, "", schema.GroupVersion{}, true)
	if err != nil {
		return versionReply{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return versionReply{}, err
	}
	sent := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return versionReply{}, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	received := time.Now()
	reply = versionReply{status: resp.StatusCode}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		reply.dated, reply.clock = true, backend.ClockOf(date, sent, received)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxVersionReply))
	if err != nil {
		return reply, fmt.Errorf("read the answer: %w", err)
	}
	var info apiversion.Info
	if resp.StatusCode == http.StatusOK && json.Unmarshal(body, &info) == nil && info.GitVersion != "" {
		reply.info = &info
	}
	return reply, nil
}

// reachAdvice says what to do where the API server did not answer.
func reachAdvice(err error) string {
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return "its certificate is of another authority: set certificate-authority in the kubeconfig to the cluster's"
	case errors.As(err, &wrongName):
		return "its certificate is for other names: take one of them as the server in the kubeconfig"
	case errors.As(err, &invalid):
		return "look at the clocks and at the API server's certificate"
	default:
		return "check that it runs, the server in the kubeconfig, and the network in between"
	}
}

func judgeClock(r versionReply) backend.Finding {
	const what = "clock"
	if !r.dated {
		return backend.Doubtful(what, "the API server sends no date", "")
	}
	return r.clock.Judge(what, "the API server's",
		"run an NTP client here and on the API server's machine", "certificates and tokens of the cluster are not valid here")
}
