package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/kit/launch"
)

const (
	// demoName names all that the demo makes in a cluster of the user's: it must be
	// nobody else's.
	demoName = "burstlet-demo"
	// rightsFile holds what is made before the node joins.
	rightsFile = "rights.yaml"
	// tokenLife is that of the node's token, which is renewed; that of a demo that was
	// killed ends soon.
	tokenLife, renewEvery = time.Hour, 10 * time.Minute
	// reachLimit bounds how long the API server may take to reach burstlet.
	reachLimit = 20 * time.Second
	// leaveTimeout bounds the removal from a cluster that stays.
	leaveTimeout = 6 * time.Minute
	// removeTimeout bounds each try of "burstlet remove-nodes" in it.
	removeTimeout = 2 * time.Minute
)

//go:embed mine
var mineFiles embed.FS

// join makes in the user's cluster what a node needs, and from then on leave removes
// it.
func (d *demo) join(ctx context.Context) error {
	d.out.heading("Making a namespace, and an account for the node with its rights")
	var err error
	if d.dir, err = os.MkdirTemp("", "burstlet-demo-"); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	if err := writeFiles(mineFiles, "mine", d.dir); err != nil {
		return err
	}
	if err := writeFiles(manifests, "manifests", d.dir); err != nil {
		return err
	}
	if d.kubeconfig, err = d.mine.writeContext(filepath.Join(d.dir, "kubeconfig")); err != nil {
		return err
	}
	if err := d.writeClientCA(ctx); err != nil {
		return err
	}
	d.leave = d.leaveMine
	if _, err := d.kubectl(ctx, "create", "-f", rightsFile); err != nil {
		return err
	}
	if err := d.renewToken(ctx); err != nil {
		return err
	}
	return d.mine.writeNodeKubeconfig(d.nodeKubeconfig(), d.tokenFile())
}

func writeFiles(from embed.FS, root, dir string) error {
	files, err := fs.Sub(from, root)
	if err != nil {
		return fmt.Errorf("find manifests: %w", err)
	}
	if err := os.CopyFS(dir, files); err != nil {
		return fmt.Errorf("write manifests: %w", err)
	}
	return nil
}

func (c *cluster) tokenFile() string      { return filepath.Join(c.dir, "token") }
func (c *cluster) clientCAFile() string   { return filepath.Join(c.dir, "client-ca.crt") }
func (c *cluster) nodeKubeconfig() string { return filepath.Join(c.dir, "node.kubeconfig") }

// writeClientCA writes the CA of those who may call burstlet, which the user may read
// and the node need not.
func (c *cluster) writeClientCA(ctx context.Context) error {
	const name, key = "extension-apiserver-authentication", "client-ca-file"
	published, err := c.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the CA of the API server's client certificate: %w", err)
	}
	if published.Data[key] == "" {
		return fmt.Errorf("read the CA of the API server's client certificate: ConfigMap kube-system/%s has no %s", name, key)
	}
	if err := os.WriteFile(c.clientCAFile(), []byte(published.Data[key]), 0o600); err != nil {
		return fmt.Errorf("write the CA of the API server's client certificate: %w", err)
	}
	return nil
}

// renewToken writes a new token for the node, in one step.
func (c *cluster) renewToken(ctx context.Context) error {
	seconds := int64(tokenLife.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	var err error
	if request, err = c.client.CoreV1().ServiceAccounts(demoName).CreateToken(
		ctx, demoName, request, metav1.CreateOptions{},
	); err != nil {
		return fmt.Errorf("get a token for the node: %w", err)
	}
	next := c.tokenFile() + ".next"
	if err := os.WriteFile(next, []byte(request.Status.Token), 0o600); err != nil {
		return fmt.Errorf("write the node's token: %w", err)
	}
	if err := os.Rename(next, c.tokenFile()); err != nil {
		return fmt.Errorf("write the node's token: %w", err)
	}
	return nil
}

// keepToken renews the token until ctx ends. One that could not be had is tried again
// long before the last one ends.
func (c *cluster) keepToken(ctx context.Context) error {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := c.renewToken(ctx); apierrors.IsNotFound(err) {
			return err // somebody deleted the account, and the node with it
		}
	}
}

// askReach has the user's API server ask burstlet for a pod's log, and remembers where
// that cannot be. Nothing else of the API shows it before: the node calls the API server
// itself, and nodes/proxy refuses addresses of the loopback interface.
func (d *demo) askReach(ctx context.Context, pod string) {
	if d.mine == nil {
		return
	}
	asked, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	output, err := d.runKubectl(asked, "logs", pod)
	if err == nil || ctx.Err() != nil {
		return
	}
	if output = strings.TrimSpace(output); asked.Err() != nil || output == "" {
		output = fmt.Sprintf("no answer within %s", reachLimit)
	}
	d.unreached = true
	d.out.note("The API server of your cluster cannot call burstlet at %s:\n%s", d.mine.address, output)
	d.out.note("So kubectl logs, exec and port-forward cannot work here, and are left out. All else does.\n" +
		"Where this machine has an address that the API server reaches, name it: ADDRESS=192.0.2.10")
}

// leaveMine removes from the user's cluster what the demo made there, and looks that
// nothing is left. burstlet has ended; the host where pods ran is still there.
func (d *demo) leaveMine(ctx context.Context) error {
	var errs []error
	// Before the node goes: pods made in place of its own would wait for another, and
	// the namespace for their grace.
	_, err := d.kubectl(ctx, "delete", "-f", "hello.yaml", "-f", "compute.yaml", "--ignore-not-found")
	errs = append(errs, err)
	if d.node != nil {
		err := d.removeNode(ctx)
		if err != nil && ctx.Err() == nil {
			// The host goes in a moment, with all that runs there.
			d.out.note("%v", err)
			err = d.removeNode(ctx, "--keep-pods")
		}
		errs = append(errs, err)
	}
	_, err = d.kubectl(ctx, "delete", "-f", rightsFile, "--ignore-not-found")
	errs = append(errs, err)
	// What others said of the node.
	err = d.client.CoreV1().Events(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + nodeName})
	if err != nil {
		errs = append(errs, fmt.Errorf("delete the Events of the node: %w", err))
	}
	errs = append(errs, d.checkLeft(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w\nwhat is left in your cluster is removed by:\n%s", err, byHand)
	}
	return nil
}

// removeNode removes the Node, its pods and its leases, as one does with any node of
// burstlet's.
func (d *demo) removeNode(ctx context.Context, more ...string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	args := append([]string{"remove-nodes", "--config", d.configFile(), "--force-after", "0s"}, more...)
	d.out.command("burstlet", args...)
	cmd := exec.CommandContext(ctx, d.program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it then says what remains
	cmd.WaitDelay = endWait
	cmd.SysProcAttr = apart()
	cmd.Env = append(launch.Environ(os.Environ()), "KUBECONFIG="+d.kubeconfig)
	log, err := os.OpenFile(filepath.Join(d.dir, "remove-nodes.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("remove the node: %w", err)
	}
	defer func() { _ = log.Close() }() // all was said on the screen too
	cmd.Stdout, cmd.Stderr = indented{d.out}, log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("remove the node: %w", errors.Join(err, ctx.Err()))
	}
	return nil
}

// indented writes whole lines as notes.
type indented struct{ *screen }

func (i indented) Write(p []byte) (int, error) {
	i.text(string(p))
	return len(p), nil
}

// checkLeft looks for what should be gone.
func (d *demo) checkLeft(ctx context.Context) error {
	left, err := d.runKubectl(ctx, "get", "-f", rightsFile, "--ignore-not-found", "--output", "name")
	if err != nil {
		return fmt.Errorf("look for what is left: %w", err)
	}
	if left != "" {
		return fmt.Errorf("these are left: %s", left)
	}
	_, err = d.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err == nil {
		return fmt.Errorf("the Node %s is left", nodeName)
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for the Node: %w", err)
	}
	_, err = d.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, nodeName, metav1.GetOptions{})
	if err == nil {
		return fmt.Errorf("the Lease %s/%s is left", corev1.NamespaceNodeLease, nodeName)
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for the Lease: %w", err)
	}
	return nil
}
