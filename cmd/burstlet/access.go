package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider/identity"
)

// identityTimeout bounds the first question to the API server.
const identityTimeout = 20 * time.Second

// access is a node's way to the API server, over all its terms.
type access struct {
	// identity is the credential that the cluster issued; nil with a kubeconfig.
	identity *identity.Client
	// registry has the metrics of the credential and of the requests made with it.
	registry *prometheus.Registry
	calls    *apiCalls

	rest   *rest.Config // of a kubeconfig
	client config.Client
}

// openAccess finds the node's credential, or has one issued, for which it waits.
func openAccess(ctx context.Context, cfg config.Configuration) (*access, error) {
	a := &access{registry: prometheus.NewRegistry(), calls: newAPICalls(), client: cfg.Client}
	a.registry.MustRegister(a.calls.requests, a.calls.duration)
	var err error
	if cfg.BootstrapKubeconfig == "" {
		a.rest, err = findAccess(cfg.Kubeconfig)
		return a, err
	}
	a.identity, err = identity.NewClient(ctx, identity.ClientConfig{
		NodeName: cfg.Node.Name, BootstrapKubeconfig: cfg.BootstrapKubeconfig,
		CertDirectory: cfg.CertDirectory, Registerer: a.registry,
	})
	return a, err
}

// config returns the way for one client; it is the caller's own.
func (a *access) config() *rest.Config {
	var c *rest.Config
	if a.identity != nil {
		c = a.identity.RESTConfig()
	} else {
		c = rest.CopyConfig(a.rest)
	}
	c.QPS, c.Burst, c.UserAgent = a.client.QPS, a.client.Burst, userAgent()
	// As a kubelet: half the work for both sides.
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c.Wrap(a.calls.count)
	return c
}

func userAgent() string { return "burstlet/" + programVersion() }

// findAccess finds an access to the API server: the file named, else $KUBECONFIG,
// else the pod's own service account, else ~/.kube/config.
func findAccess(file string) (*rest.Config, error) {
	if file == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		c, err := rest.InClusterConfig()
		if err == nil || !errors.Is(err, rest.ErrNotInCluster) {
			return c, err
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no access to a cluster: name a kubeconfig file with --kubeconfig, " +
			"$KUBECONFIG or kubeconfig in the configuration, or put one at ~/.kube/config")
	case err != nil:
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return c, nil
}

// nodeIdentity is what tells this node's pods on a remote from all others: as
// configured, else the UID of Service default/kubernetes and the node's name.
func nodeIdentity(ctx context.Context, client kubernetes.Interface, cfg config.Configuration, server string) (string, error) {
	if cfg.Node.Identity != "" {
		return cfg.Node.Identity, nil
	}
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	svc, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	switch {
	case err == nil:
		return string(svc.UID) + "/" + cfg.Node.Name, nil
	case apierrors.IsUnauthorized(err):
		return "", fmt.Errorf("the API server at %s does not accept the credential: %w; "+
			"check the user in the kubeconfig (--kubeconfig)", server, err)
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return "", fmt.Errorf("read Service default/kubernetes, whose UID tells clusters apart: %w; "+
			"allow it, or set node.identity", err)
	}
	return "", fmt.Errorf("reach the API server at %s: %w; check that it runs and the server in the kubeconfig (--kubeconfig)", server, err)
}

// eventSink sends Events to the API server.
type eventSink struct {
	client      kubernetes.Interface
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

func newEventSink(client kubernetes.Interface, node string) *eventSink {
	b := record.NewBroadcaster()
	return &eventSink{
		client: client, broadcaster: b,
		recorder: b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "burstlet", Host: node}),
	}
}

// Run sends Events until the context ends. Events are best effort, as a
// kubelet's are.
func (s *eventSink) Run(ctx context.Context) error {
	watch := s.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: s.client.CoreV1().Events("")})
	<-ctx.Done()
	watch.Stop()
	s.broadcaster.Shutdown()
	return nil
}

// Eventf makes an Event about a pod.
func (s *eventSink) Eventf(pod *corev1.Pod, kind, reason, format string, args ...any) {
	log.L.WithFields(log.Fields{"pod": pod.Namespace + "/" + pod.Name, "reason": reason}).Debug("event")
	s.recorder.Eventf(runtime.Object(pod), kind, reason, format, args...)
}

// about makes an Event about an object that is not a pod.
func (s *eventSink) about(object *corev1.ObjectReference, kind, reason, message string) {
	log.L.WithFields(log.Fields{"kind": object.Kind, "name": object.Name, "reason": reason}).Debug("event")
	s.recorder.Event(object, kind, reason, message)
}
