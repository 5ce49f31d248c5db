package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/containerd/log"
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
)

// clientConfig finds the access to the API server: the file named, else
// $KUBECONFIG, else the pod's own service account, else ~/.kube/config.
func clientConfig(cfg config.Configuration) (*rest.Config, error) {
	c, err := findAccess(cfg.Kubeconfig)
	if err != nil {
		return nil, err
	}
	c.QPS, c.Burst = cfg.Client.QPS, cfg.Client.Burst
	c.UserAgent = "burstlet/" + programVersion()
	return c, nil
}

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

// eventSink sends Events about pods to the API server.
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
