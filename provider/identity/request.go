package identity

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"sync"
	"time"

	"github.com/containerd/log"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
)

// remindAfter is how long a request may wait before people are told what to do:
// controllers that approve and sign take a second.
const remindAfter = 10 * time.Second

// narrator tells people what becomes of certificate requests. The manager, which
// makes them, logs no names.
type narrator struct {
	entry *log.Entry

	mu       sync.Mutex
	request  []byte // the last, PEM
	name     string // of the request that is waited for; "" for none
	signer   string
	approved bool
	refused  bool // reported
	reminder *time.Timer
}

func (n *narrator) requested(csr *certificatesv1.CertificateSigningRequest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.settle()
	n.request, n.name, n.signer = csr.Spec.Request, csr.Name, csr.Spec.SignerName
	n.approved, n.refused = false, false
	n.reminder = time.AfterFunc(remindAfter, func() { n.remind(csr.Name) })
	n.fields().Info("certificate requested")
}

// settle ends the waiting. The caller holds the lock.
func (n *narrator) settle() {
	n.name = ""
	if n.reminder != nil {
		n.reminder.Stop()
	}
}

func (n *narrator) fields() *log.Entry {
	return n.entry.WithFields(log.Fields{"csr": n.name, "signer": n.signer})
}

func (n *narrator) remind(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.name != name || n.refused:
	case n.approved:
		n.fields().Warn("certificate request is approved but not signed: check that its signer runs")
	default:
		n.fields().WithField("command", "kubectl certificate approve "+name).
			Warn("certificate request waits for approval: look at it, then run the command, or set up automatic approval")
	}
}

// saw takes a request as the API holds it.
func (n *narrator) saw(csr *certificatesv1.CertificateSigningRequest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if csr.Name != n.name || n.refused {
		return
	}
	for _, c := range csr.Status.Conditions {
		fields := n.fields().WithFields(log.Fields{"reason": c.Reason, "message": c.Message})
		switch c.Type {
		case certificatesv1.CertificateApproved:
			n.approved = true
		case certificatesv1.CertificateDenied:
			n.refused = true
			fields.Error("certificate request was denied; another is made after a pause")
		case certificatesv1.CertificateFailed:
			n.refused = true
			fields.Error("certificate request was not signed, the signer says that it failed; another is made after a pause")
		}
	}
}

func (n *narrator) deleted(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name == n.name {
		n.fields().Warn("certificate request was deleted; another is made after a pause")
		n.settle()
	}
}

// unseen reports that requests cannot be read, which the manager tries again
// every second without a word.
func (n *narrator) unseen(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fields().WithError(err).Warn("cannot look at the certificate request; trying again")
}

func (n *narrator) issued(until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fields().WithField("expires", until.UTC().Format(time.RFC3339)).Info("certificate issued")
	n.settle()
}

// waitingFor is the name of the request that is not answered yet; "" for none.
func (n *narrator) waitingFor() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.name
}

// asked is what the last request asked for; nil when there was none.
func (n *narrator) asked() *x509.CertificateRequest {
	n.mu.Lock()
	defer n.mu.Unlock()
	block, _ := pem.Decode(n.request)
	if block == nil {
		return nil
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil // the API server took it: it is ours
	}
	return request
}

func (n *narrator) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.settle()
}

// narrated is a clientset whose certificate requests are narrated.
type narrated struct {
	kubernetes.Interface
	narrator *narrator
}

// IsWatchListSemanticsUnSupported is asked of fake clientsets by client-go.
func (c narrated) IsWatchListSemanticsUnSupported() bool {
	inner, ok := c.Interface.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && inner.IsWatchListSemanticsUnSupported()
}

func (c narrated) CertificatesV1() typedv1.CertificatesV1Interface {
	return narratedV1{c.Interface.CertificatesV1(), c.narrator}
}

type narratedV1 struct {
	typedv1.CertificatesV1Interface
	narrator *narrator
}

func (c narratedV1) CertificateSigningRequests() typedv1.CertificateSigningRequestInterface {
	return narratedRequests{c.CertificatesV1Interface.CertificateSigningRequests(), c.narrator}
}

type narratedRequests struct {
	typedv1.CertificateSigningRequestInterface
	narrator *narrator
}

func (c narratedRequests) Create(
	ctx context.Context, csr *certificatesv1.CertificateSigningRequest, opts metav1.CreateOptions,
) (
	*certificatesv1.CertificateSigningRequest, error,
) {
	made, err := c.CertificateSigningRequestInterface.Create(ctx, csr, opts)
	if err == nil {
		c.narrator.requested(made)
	}
	return made, err
}

func (c narratedRequests) List(
	ctx context.Context, opts metav1.ListOptions,
) (*certificatesv1.CertificateSigningRequestList, error) {
	list, err := c.CertificateSigningRequestInterface.List(ctx, opts)
	if err != nil {
		c.narrator.unseen(err)
		return nil, err
	}
	for i := range list.Items {
		c.narrator.saw(&list.Items[i])
	}
	return list, nil
}

func (c narratedRequests) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := c.CertificateSigningRequestInterface.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(event watch.Event) (watch.Event, bool) {
		if csr, ok := event.Object.(*certificatesv1.CertificateSigningRequest); ok {
			switch event.Type {
			case watch.Added, watch.Modified:
				c.narrator.saw(csr)
			case watch.Deleted:
				c.narrator.deleted(csr.Name)
			case watch.Bookmark, watch.Error:
			}
		}
		return event, true
	}), nil
}
