package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider/identity"
)

// credential is a node's access to the API server, over all its terms.
type credential struct {
	// identity is the credential that the cluster issued; nil with a kubeconfig.
	identity *identity.Client
	// registry has the metrics of the credential and of the requests made with it.
	registry *prometheus.Registry
	calls    *apiCalls

	rest *rest.Config // of a kubeconfig
	// own is the access that impersonates the node; where nothing does, that of the pod that
	// this process runs in; nil: it runs in none.
	own    *rest.Config
	client config.Client
}

// openCredential finds the node's credential, or has one issued, for which it waits.
func openCredential(ctx context.Context, cfg config.Configuration) (*credential, error) {
	c := &credential{registry: prometheus.NewRegistry(), calls: newAPICalls(), client: cfg.Client}
	c.registry.MustRegister(c.calls.requests, c.calls.duration)
	var err error
	if !cfg.ImpersonateNode {
		if c.own, err = access.InPod(); err != nil {
			return nil, err
		}
	}
	if cfg.BootstrapKubeconfig == "" {
		if c.rest, err = access.Find(cfg.Kubeconfig); err != nil || !cfg.ImpersonateNode {
			return c, err
		}
		c.own = c.rest
		c.rest, err = access.AsNode(ctx, c.own, cfg.Node.Name)
		return c, err
	}
	c.identity, err = identity.NewClient(ctx, identity.ClientConfig{
		NodeName: cfg.Node.Name, BootstrapKubeconfig: cfg.BootstrapKubeconfig,
		CertDirectory: cfg.CertDirectory, Registerer: c.registry,
	})
	return c, err
}

// config returns the client configuration; it is the caller's own.
func (c *credential) config() *rest.Config {
	var out *rest.Config
	if c.identity != nil {
		out = c.identity.RESTConfig()
	} else {
		out = rest.CopyConfig(c.rest)
	}
	return c.tuned(out)
}

// beneath returns the client configuration of the one who impersonates the node, or in
// whose pod it runs, for what a node may not read; nil: there is none.
func (c *credential) beneath() *rest.Config {
	if c.own == nil {
		return nil
	}
	return c.tuned(rest.CopyConfig(c.own))
}

func (c *credential) tuned(out *rest.Config) *rest.Config {
	out.QPS, out.Burst, out.UserAgent = c.client.QPS, c.client.Burst, userAgent()
	// As a kubelet: half the work for both sides.
	out.ContentType = runtime.ContentTypeProtobuf
	out.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	out.Wrap(c.calls.count)
	return out
}

func userAgent() string { return "burstlet/" + programVersion() }
