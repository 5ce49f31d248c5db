package removal

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend/pause"
	"github.com/burstlet/burstlet/provider/nodeuser"
)

func (n *Node) elected() bool { return n.cfg.Election.Name != "" }

func (n *Node) ownLease() types.NamespacedName {
	return types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: n.cfg.Name}
}

// server returns the process that serves the node now, "" if none does.
func (n *Node) server(ctx context.Context) (string, error) {
	name := n.ownLease()
	if n.elected() {
		name = n.cfg.Election
	}
	lease, err := n.lease(ctx, name)
	if err != nil {
		return "", err
	}
	holder := n.watch.see(lease, time.Now())
	n.lastSign = n.watch.renewed // zero for a lease that was given up
	return holder, nil
}

// lease returns a Lease, nil if there is none.
func (n *Node) lease(ctx context.Context, name types.NamespacedName) (*coordinationv1.Lease, error) {
	lease, err := n.cfg.Client.CoordinationV1().Leases(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read lease %s: %w", name, err)
	}
	return lease, nil
}

// awaitEnd waits until no process serves the node.
func (n *Node) awaitEnd(ctx context.Context) error {
	said := ""
	err := until(ctx, func() (bool, time.Duration, error) {
		holder, err := n.server(ctx)
		if err != nil || holder == "" {
			return err == nil, 0, err
		}
		if holder != said {
			said = holder
			n.say("waiting for the end of %s, which runs it: stop it", holder)
		}
		return false, lookAgain, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the end of what runs node %s: %w", n.cfg.Name, err)
	}
	return nil
}

// dropLease deletes the Lease that the node was kept alive by.
func (n *Node) dropLease(ctx context.Context) error {
	err := try(ctx, func() error { return n.deleteLease(ctx, n.ownLease(), nil) })
	if err != nil {
		return err
	}
	n.say("lease %s deleted", n.ownLease())
	return nil
}

// deleteLease deletes a Lease. One that is gone is no error.
func (n *Node) deleteLease(ctx context.Context, name types.NamespacedName, as *coordinationv1.Lease) error {
	var options metav1.DeleteOptions
	if as != nil { // as it was seen
		options.Preconditions = &metav1.Preconditions{UID: &as.UID, ResourceVersion: &as.ResourceVersion}
	}
	err := n.cfg.Client.CoordinationV1().Leases(name.Namespace).Delete(ctx, name.Name, options)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete lease %s: %w", name, err)
	}
	return nil
}

// dropElection deletes the election's Lease once no process holds it.
func (n *Node) dropElection(ctx context.Context) error {
	if !n.elected() {
		return nil
	}
	holder, err := n.dropUnheld(ctx, n.cfg.Election)
	switch {
	case err != nil || holder == "":
		return err
	case n.cfg.KeepElection:
		n.say("lease %s stays, for the other nodes", n.cfg.Election)
		return nil
	}
	return n.taken(holder)
}

// dropFormer deletes the Lease that the node had before its election was another.
func (n *Node) dropFormer(ctx context.Context) error {
	name := n.cfg.FormerElection
	if name.Name == "" {
		return nil
	}
	if lease, err := n.lease(ctx, name); err == nil && lease == nil { // most nodes have had none
		return nil
	}
	holder, err := n.dropUnheld(ctx, name)
	if holder != "" {
		n.say("lease %s stays: %s holds it; delete it once nothing with that identity runs", name, holder)
	}
	return err
}

// dropUnheld deletes an election's Lease unless somebody holds it.
func (n *Node) dropUnheld(ctx context.Context, name types.NamespacedName) (holder string, err error) {
	err = try(ctx, func() error {
		lease, err := n.lease(ctx, name)
		if err != nil || lease == nil {
			return err
		}
		if h := lease.Spec.HolderIdentity; h != nil && *h != "" {
			holder = *h
			return nil
		}
		return n.deleteLease(ctx, name, lease)
	})
	if err == nil && holder == "" {
		n.say("lease %s deleted", name)
	}
	return holder, err
}

var errTaken = errors.New("another process runs it now")

func (n *Node) taken(by string) error {
	return fmt.Errorf("node %s: %w: %s: stop it and run this again", n.cfg.Name, errTaken, by)
}

// registering is how long a process that holds a Lease takes at most to make its Nodes.
const registering = 15 * time.Second

// confirm looks whether somebody who stood by made the node again.
func (n *Node) confirm(ctx context.Context) error {
	if pause.For(ctx, n.cfg.Recheck) != nil {
		return ended(ctx)
	}
	held, err := n.notAgain(ctx)
	if err != nil || !held {
		return err
	}
	// It runs the nodes that stay; whether it knows this one too its Node will tell.
	if pause.For(ctx, registering) != nil {
		return ended(ctx)
	}
	_, err = n.notAgain(ctx)
	return err
}

// notAgain returns an error if another process has the node. Held is true where one has a Lease
// that other nodes have too.
func (n *Node) notAgain(ctx context.Context) (held bool, err error) {
	err = try(ctx, func() error {
		node, err := n.get(ctx)
		if err != nil {
			return err
		}
		var lease *coordinationv1.Lease
		if n.elected() {
			if lease, err = n.lease(ctx, n.cfg.Election); err != nil {
				return err
			}
		}
		held = n.cfg.KeepElection && lease != nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
		switch {
		case !n.cfg.KeepElection && lease != nil && lease.Spec.HolderIdentity != nil:
			return n.taken(*lease.Spec.HolderIdentity)
		case node != nil:
			return n.taken("it made the Node again")
		}
		return nil
	})
	return held, err
}

// dropRequests deletes the node's certificate requests. Certificates that were
// issued stay valid until they expire: nothing revokes them.
func (n *Node) dropRequests(ctx context.Context) error {
	deleted := 0
	requests := n.cfg.Client.CertificatesV1().CertificateSigningRequests()
	err := try(ctx, func() error {
		list, err := requests.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list certificate requests: %w", err)
		}
		for i := range list.Items {
			csr := &list.Items[i]
			if !n.requested(csr) {
				continue
			}
			if err := requests.Delete(ctx, csr.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete certificate request %s: %w", csr.Name, err)
			}
			deleted++
		}
		return nil
	})
	if err != nil {
		return err
	}
	n.say("certificate requests deleted: %d", deleted)
	return nil
}

// requested is true of a request for a certificate of the node.
func (n *Node) requested(csr *certificatesv1.CertificateSigningRequest) bool {
	signers := []string{certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName}
	if !slices.Contains(append(signers, n.cfg.Signers...), csr.Spec.SignerName) {
		return false
	}
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return false
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	return err == nil && request.Subject.CommonName == nodeuser.Name(n.cfg.Name) &&
		slices.Contains(request.Subject.Organization, nodeuser.Group)
}
