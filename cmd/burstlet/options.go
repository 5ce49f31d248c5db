package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/containerd/log"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/cmd/burstlet/backends"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/cmd/burstlet/credentialprovider"
	"github.com/burstlet/burstlet/provider"
	"github.com/burstlet/burstlet/provider/kubeletapi"
	"github.com/burstlet/burstlet/syncloop/imagegc"
	"github.com/burstlet/burstlet/syncloop/images"
)

func nodeOptions(cfg config.Configuration, identity string) provider.NodeOptions {
	o := provider.NodeOptions{
		Identity: identity,
		Labels:   cfg.Node.Labels, Annotations: cfg.Node.Annotations, Taints: cfg.Node.Taints,
		Capacity: cfg.Node.Capacity.ResourceList(), InternalIP: cfg.Node.InternalIP,
		Version: provider.KubeletVersion(programVersion()), MaxImages: &cfg.Images.NodeStatusMaxImages,
	}
	if pods := cfg.Node.Capacity.Pods; pods != nil {
		o.MaxPods = pods.Value()
	}
	return o
}

// imageGC is what the engine removes images by.
func imageGC(cfg config.Images) *imagegc.Policy {
	return &imagegc.Policy{
		HighThresholdPercent: cfg.GCHighThresholdPercent, LowThresholdPercent: cfg.GCLowThresholdPercent,
		MinAge: cfg.MinimumGCAge.Duration, MaxAge: cfg.MaximumGCAge.Duration,
	}
}

// nodeLogins are the logins for images that plugins have for the node; nil: there are none.
func nodeLogins(cfg config.Images, client kubernetes.Interface) (images.NodeLogins, error) {
	if cfg.CredentialProviderConfigFile == "" {
		return nil, nil
	}
	plugins, err := credentialprovider.Read(
		cfg.CredentialProviderConfigFile, cfg.CredentialProviderBinDir, client.CoreV1(),
	)
	if err != nil {
		return nil, fmt.Errorf("images.imageCredentialProviderConfigFile: %w", err)
	}
	return plugins, nil
}

// apiOptions are those of the kubelet API; nil, so that it is not served, where
// there is no serving certificate. One that the cluster issues is still to be set.
func apiOptions(cfg config.KubeletAPI) *kubeletapi.Options {
	if !cfg.Served() {
		return nil
	}
	return &kubeletapi.Options{
		Address:  net.JoinHostPort(cfg.Address, strconv.Itoa(cfg.Port)),
		CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, SelfSigned: cfg.SelfSigned, ClientCAFile: cfg.ClientCAFile,
		SystemLogHandler: cfg.EnableSystemLogHandler, SystemLogQuery: cfg.EnableSystemLogQuery,
	}
}

// greet says what a user must know who looks at nothing else.
func greet(ctx context.Context, cfg config.Configuration) {
	entry := log.G(ctx).WithFields(log.Fields{"node": cfg.Node.Name, "backend": cfg.Backend.Type})
	if kind, err := backends.Of(cfg.Backend.Type); err == nil && kind.Caution != "" {
		entry.Warn(kind.Caution)
	}
	switch api := cfg.KubeletAPI; {
	case !api.Served():
		entry.Warn("no serving certificate: the kubelet API is off and kubectl logs does not work; " +
			"set kubeletAPI.certFile and kubeletAPI.keyFile, or kubeletAPI.serverTLSBootstrap or kubeletAPI.selfSigned")
	case api.SelfSigned:
		entry.Info("the kubelet API has a self-signed certificate, which the API server must not verify")
	}
	entry.WithField("version", programVersion()).Info("starting the node")
}
