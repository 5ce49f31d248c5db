package access

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider"
)

const (
	// firstCallRetry is the pause between tries of a first call.
	firstCallRetry = time.Second
	// aloneTimeout bounds it where a node can do without the answer.
	aloneTimeout = 3 * time.Second
)

// ErrIdentity says that the identity that stands on the Node is not the one that this
// process would use.
var ErrIdentity = errors.New("node.identity: the identity on the Node is another")

// NodeIdentity returns what distinguishes this node's pods on a remote from all others:
// what stands on the Node ([provider.IdentityAnnotation]), so that it outlives whatever it
// was derived from. A Node that has none yet, or that does not exist, gets what is
// configured, else the UID of Service default/kubernetes and the node's name. server is
// the URL of the API server, for errors. An error that is ErrIdentity is for a person to
// resolve.
//
// A node with static pods, which run without the API server, does not wait for it where an
// identity is configured: the Node is looked at again when it is registered.
func NodeIdentity(
	ctx context.Context, client kubernetes.Interface, cfg config.Configuration, server string,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, FirstCallTimeout)
	defer cancel()
	node, err := awaitNode(ctx, client, cfg)
	if err != nil {
		return "", unreachable(fmt.Errorf("read node %s, which holds its identity: %w", cfg.Node.Name, err), server)
	}
	if cfg.Node.Identity != "" {
		return cfg.Node.Identity, judgeConfigured(cfg.Node, node)
	}
	kept := node.Annotations[provider.IdentityAnnotation]
	svc, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	switch {
	case err == nil && kept == "":
		return string(svc.UID) + "/" + cfg.Node.Name, nil
	case err == nil:
		return kept, judgeKept(node, svc)
	case !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err):
		return "", unreachable(err, server)
	case kept != "": // the Service is gone, and will come back as another
		return kept, judgeName(node)
	}
	return "", fmt.Errorf("read Service default/kubernetes, whose UID tells clusters apart: %w; "+
		"allow it, or set node.identity", err)
}

// awaitNode is getNode for as long as there is time, or as the node waits for it: what does
// not answer then has no Node.
func awaitNode(ctx context.Context, client kubernetes.Interface, cfg config.Configuration) (*corev1.Node, error) {
	if cfg.Node.Identity == "" || cfg.Pods.StaticPodPath == "" && cfg.Pods.StaticPodURL == "" {
		return getNode(ctx, client, cfg.Node.Name)
	}
	soon, cancel := context.WithTimeout(ctx, aloneTimeout)
	defer cancel()
	node, err := getNode(soon, client, cfg.Node.Name)
	if err == nil || refused(err) || ctx.Err() != nil {
		return node, err
	}
	log.G(ctx).WithError(err).Warn("the API server does not answer; static pods start without it")
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: cfg.Node.Name}}, nil
}

// getNode returns the Node, an empty one if there is none. It tries as long as an answer
// may come.
func getNode(ctx context.Context, client kubernetes.Interface, name string) (*corev1.Node, error) {
	var node *corev1.Node
	var last error
	err := wait.PollUntilContextCancel(ctx, firstCallRetry, true, func(ctx context.Context) (bool, error) {
		var err error
		node, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			return true, nil
		case apierrors.IsNotFound(err):
			node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			return true, nil
		case refused(err):
			return false, err
		}
		if last == nil || !isOver(ctx) {
			last = err // not the end of the time itself
		}
		return false, nil
	})
	if err != nil && last != nil && wait.Interrupted(err) {
		err = last
	}
	return node, err
}

// refused is true of an error that no waiting heals.
func refused(err error) bool {
	var untrusted *tls.CertificateVerificationError
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || errors.As(err, &untrusted)
}

// isOver is true when ctx has ended or is about to: its deadline has passed, and what waits
// for it, such as the client's rate limiter, may say so before the context does.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// judgeConfigured returns an error if the Node's pods run under another identity than the
// configured one.
func judgeConfigured(cfg config.Node, node *corev1.Node) error {
	kept := node.Annotations[provider.IdentityAnnotation]
	if kept == "" || kept == cfg.Identity {
		return nil
	}
	return fmt.Errorf("%w: %q is configured, but the pods of node %s run under %q: set node.identity to that; %s",
		ErrIdentity, cfg.Identity, node.Name, kept, provider.ChangeIdentity(node.Name))
}

// judgeName returns an error if the identity that stands on the Node was not derived from
// its name: whoever writes to a Node must not make it another node's.
func judgeName(node *corev1.Node) error {
	kept := node.Annotations[provider.IdentityAnnotation]
	if cluster, ok := strings.CutSuffix(kept, "/"+node.Name); ok && cluster != "" {
		return nil
	}
	return fmt.Errorf("%w: the pods of node %s run under %q, which is not derived from its name, and none is configured: "+
		"set node.identity to it if it was before; %s", ErrIdentity, node.Name, kept, provider.ChangeIdentity(node.Name))
}

// judgeKept returns an error if the identity that stands on the Node may be that of a node
// in another cluster: it names another Service than this cluster's, which is older than
// the Node. A Service that was made again is newer.
func judgeKept(node *corev1.Node, svc *corev1.Service) error {
	if err := judgeName(node); err != nil {
		return err
	}
	kept := node.Annotations[provider.IdentityAnnotation]
	if kept == string(svc.UID)+"/"+node.Name || svc.CreationTimestamp.After(node.CreationTimestamp.Time) {
		return nil
	}
	return fmt.Errorf("%w: the pods of node %s run under %q, whose first part is not the UID of Service "+
		"default/kubernetes, "+
		"and the Node is newer than that Service: set node.identity to it if these pods are this cluster's; "+
		"if the Node was copied from another cluster: kubectl annotate node %s %s-",
		ErrIdentity, node.Name, kept, node.Name, provider.IdentityAnnotation)
}

// StandInIdentity returns the node's identity if it is configured. Otherwise only the
// cluster knows it, and a word stands in: names on ECS that hold it are not the real ones.
func StandInIdentity(cfg config.Configuration) string {
	if cfg.Node.Identity != "" {
		return cfg.Node.Identity
	}
	return "explain"
}
