package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// errDeclined says that the user did not agree.
var errDeclined = errors.New("not confirmed: nothing was made in the cluster")

// made tells what a demo on a cluster of the user's makes there.
const made = `
The demo makes there, and removes when it ends, on Ctrl-C and after a failure:
  Namespace burstlet-demo      a ServiceAccount with its rights, a Deployment, a Job, their pods
  Node burstlet-demo           and its Lease in kube-node-lease
  ClusterRole burstlet-demo    and its binding: nodes, pods, events, services of the cluster
  Role burstlet-demo           in kube-node-lease, and its binding: leases
No other object is changed. Pods that tolerate every taint, as those of some DaemonSets,
are put on the new node too; they go with it.
`

// meet finds the user's cluster, says which it is and asks whether to go on. Nothing
// is made before.
func (d *demo) meet(ctx context.Context) error {
	var err error
	if d.mine, err = findMine(d.myKubeconfig); err != nil {
		return err
	}
	if d.kubectlPath = d.myKubectl; d.kubectlPath == "" {
		if d.kubectlPath, err = findKubectl(); err != nil {
			return err
		}
	}
	if d.client, err = kubernetes.NewForConfig(d.mine.access); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	d.out.heading("Your cluster")
	d.out.note("context   %s\nserver    %s", d.mine.raw.CurrentContext, d.mine.access.Host)
	version, err := d.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("reach your cluster: %w", err)
	}
	d.out.note("version   %s", version.GitVersion)
	if err := d.mine.findAddress(ctx, d.address); err != nil {
		return err
	}
	if err := d.refuseLeftovers(ctx); err != nil {
		return err
	}
	d.out.text(made)
	return d.mayGoOn(ctx)
}

// mayGoOn asks whether to go on, unless that was said before.
func (d *demo) mayGoOn(ctx context.Context) error {
	if d.once || d.yes {
		return nil
	}
	if !d.terminal {
		return fmt.Errorf(
			"%w: there is no terminal to ask on; ONCE=1 or CONFIRM=yes (--yes) goes on without asking", errDeclined,
		)
	}
	return d.ask(ctx)
}

// ask asks on the terminal. Only a yes is one.
func (d *demo) ask(ctx context.Context) error {
	d.out.write("\n" + indent + "Go on? [y/N] ")
	answers := make(chan string, 1)
	// A read from a terminal cannot be cut short; after Ctrl-C the process ends with it.
	go func() {
		line, err := bufio.NewReader(d.in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		answers <- line
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case answer := <-answers:
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
		return errDeclined
	}
}

// refuseLeftovers refuses a cluster that has what the demo would make: it is
// somebody else's, or of a demo that was killed.
func (d *demo) refuseLeftovers(ctx context.Context) error {
	_, nodeErr := d.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	_, namespaceErr := d.client.CoreV1().Namespaces().Get(ctx, demoName, metav1.GetOptions{})
	_, roleErr := d.client.RbacV1().ClusterRoles().Get(ctx, demoName, metav1.GetOptions{})
	var there []string
	for _, look := range []struct {
		what string
		err  error
	}{{"Node " + nodeName, nodeErr}, {"Namespace " + demoName, namespaceErr}, {"ClusterRole " + demoName, roleErr}} {
		switch {
		case look.err == nil:
			there = append(there, look.what)
		case !apierrors.IsNotFound(look.err):
			return fmt.Errorf("look for %s: %w", look.what, look.err)
		}
	}
	if len(there) == 0 {
		return nil
	}
	return fmt.Errorf("%s: there already. Another demo runs on this cluster, or was killed; then remove what it left:\n%s",
		strings.Join(there, ", "), byHand)
}

// byHand are the commands that remove all that a demo makes in a cluster.
const byHand = `kubectl delete node burstlet-demo --ignore-not-found
kubectl delete namespace burstlet-demo --ignore-not-found
kubectl delete clusterrole,clusterrolebinding burstlet-demo --ignore-not-found
kubectl delete role,rolebinding,lease burstlet-demo --namespace kube-node-lease --ignore-not-found`

// isTerminal says whether somebody can answer.
func isTerminal(file *os.File) bool {
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}
