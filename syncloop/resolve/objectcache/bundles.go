package objectcache

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/containerd/log"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/syncloop/resolve"
)

const (
	// bundleRefresh is how often trust bundles are read again: about as often as
	// the kubelet writes a volume anew.
	bundleRefresh = time.Minute
	// bundleMissing is how soon one is looked for again that did not exist.
	bundleMissing = 5 * time.Second
	// maxSelector bounds a label selector's length, as the kubelet does.
	maxSelector = 100 << 10
)

// bundle is one selection of trust anchors, shared by the pods that make it. The
// Cache's lock guards it.
type bundle struct {
	selection resolve.Bundle
	users     map[types.UID]struct{}
	task      task
	known     bool
	value     string
	err       error
	retry     retry
}

func (c *Cache) useBundles(e *podEntry, after []resolve.Bundle) {
	selections := make(map[string]resolve.Bundle, len(after))
	for _, s := range after {
		selections[s.Key] = s
	}
	difference(bundleKeys(e.refs.Bundles), bundleKeys(after),
		func(key string) {
			b := c.bundles[key]
			delete(b.users, e.pod.UID)
			if len(b.users) == 0 {
				c.drop(&b.task)
				delete(c.bundles, key)
			}
		},
		func(key string) {
			b := c.bundles[key]
			if b == nil {
				b = &bundle{selection: selections[key], users: make(map[types.UID]struct{})}
				b.task.run = func(ctx context.Context) time.Duration { return c.readBundle(ctx, b) }
				c.bundles[key] = b
				c.schedule(&b.task, time.Now())
			}
			b.users[e.pod.UID] = struct{}{}
		})
}

func bundleKeys(bundles []resolve.Bundle) []string {
	keys := make([]string, len(bundles))
	for i, b := range bundles {
		keys[i] = b.Key
	}
	return keys
}

func (c *Cache) bundleSnapshot(e *podEntry) map[string]resolve.Object[string] {
	if len(e.refs.Bundles) == 0 {
		return nil
	}
	out := make(map[string]resolve.Object[string], len(e.refs.Bundles))
	for _, s := range e.refs.Bundles {
		if b := c.bundles[s.Key]; b.known || b.err != nil {
			out[s.Key] = resolve.Object[string]{Value: b.value, Err: b.err}
		}
	}
	return out
}

// errNoBundles is a missing API, which is no missing object: an optional source
// needs it too.
var errNoBundles = errors.New(
	"the API server does not serve ClusterTrustBundles (certificates.k8s.io/v1beta1 or v1alpha1)",
)

func (c *Cache) readBundle(ctx context.Context, b *bundle) time.Duration {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	value, err := c.trustAnchors(call, &b.selection)
	// The list was answered, so that there is nothing to be patient about.
	missing := apierrors.IsNotFound(err)
	c.mu.Lock()
	if b.task.ended || ctx.Err() != nil {
		c.mu.Unlock()
		return never
	}
	was := resolve.Object[string]{Value: b.value, Err: b.err}
	first := !b.known && b.err == nil
	delay := bundleRefresh + jitter(bundleRefresh/5)
	switch {
	case err == nil:
		b.known, b.value, b.err, b.retry = true, value, nil, retry{}
	case missing:
		b.known, b.value, b.err = true, "", err
		delay = min(delay, bundleMissing<<min(b.retry.failures, 8))
		b.retry.failures++
	default:
		var told bool
		if delay, told = b.retry.failed(time.Now(), err); told && (!b.known || refused(err)) {
			b.err = err
		}
	}
	var tell []types.UID
	if first && (b.known || b.err != nil) || b.value != was.Value || !sameError(b.err, was.Err) {
		tell = slices.Sorted(maps.Keys(b.users))
	}
	c.mu.Unlock()
	if err != nil {
		log.G(ctx).WithError(err).WithField("bundle", b.selection.Key).Debug("trust bundle not read")
	}
	c.notify(tell...)
	return delay
}

func sameError(a, b error) bool {
	if a == nil || b == nil {
		return (a == nil) == (b == nil)
	}
	return a.Error() == b.Error()
}

// trustAnchors reads and joins what the selection selects. The error is NotFound
// if that is nothing.
func (c *Cache) trustAnchors(ctx context.Context, s *resolve.Bundle) (string, error) {
	var o metav1.ListOptions
	switch {
	case s.Name != "":
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.Name).String()
	case s.SignerName == "":
		return "", errors.New("ClusterTrustBundle projection requires either name or signerName to be set")
	default:
		selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
		if err != nil {
			return "", fmt.Errorf("while parsing label selector: %w", err)
		}
		if s.LabelSelector == nil {
			return "", errNothingSelected
		}
		if o.LabelSelector = selector.String(); len(o.LabelSelector) > maxSelector {
			return "", fmt.Errorf("label selector length (%d) is larger than %d", len(o.LabelSelector), maxSelector)
		}
		o.FieldSelector = fields.OneTermEqualSelector("spec.signerName", s.SignerName).String()
	}
	bundles, err := c.listBundles(ctx, o)
	if err != nil {
		return "", err
	}
	var found []string
	for name, b := range bundles {
		if s.Name == name || s.Name == "" && b.SignerName == s.SignerName {
			found = append(found, b.TrustBundle)
		}
	}
	switch {
	case len(found) > 0:
		return joinPEM(found), nil
	case s.Name != "":
		return "", fmt.Errorf("while getting ClusterTrustBundle: %w",
			apierrors.NewNotFound(certificatesv1beta1.Resource("clustertrustbundle"), s.Name))
	default:
		return "", errNothingSelected
	}
}

// errNothingSelected is NotFound in the kubelet's words.
var errNothingSelected error = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
	Message: "combination of signerName and labelSelector matched zero ClusterTrustBundles",
}}

// listBundles lists by name what the API holds, in the version that it serves. A
// list never fails with NotFound but for the want of the API; the Node authorizer
// may forbid a version that is not served.
func (c *Cache) listBundles(
	ctx context.Context, o metav1.ListOptions,
) (map[string]certificatesv1beta1.ClusterTrustBundleSpec, error) {
	out := make(map[string]certificatesv1beta1.ClusterTrustBundleSpec)
	beta, err := c.client.CertificatesV1beta1().ClusterTrustBundles().List(ctx, o)
	if err == nil {
		for i := range beta.Items {
			out[beta.Items[i].Name] = beta.Items[i].Spec
		}
		return out, nil
	}
	if !refused(err) {
		return nil, fmt.Errorf("while listing ClusterTrustBundles: %w", err)
	}
	alpha, alphaErr := c.client.CertificatesV1alpha1().ClusterTrustBundles().List(ctx, o)
	switch {
	case alphaErr == nil:
		for i := range alpha.Items {
			out[alpha.Items[i].Name] = certificatesv1beta1.ClusterTrustBundleSpec(alpha.Items[i].Spec)
		}
		return out, nil
	case apierrors.IsNotFound(err) && apierrors.IsNotFound(alphaErr):
		return nil, errNoBundles
	case apierrors.IsNotFound(err):
		err = alphaErr
	}
	return nil, fmt.Errorf("while listing ClusterTrustBundles: %w", err)
}

// joinPEM makes one bundle of several: each certificate once, sorted, so that an
// equal set is equal text, and without what stands between the blocks. The
// kubelet shuffles them, for programs not to rely on an order.
func joinPEM(bundles []string) string {
	set := make(map[string]struct{})
	for _, b := range bundles {
		rest := []byte(b)
		for {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			set[string(block.Bytes)] = struct{}{}
		}
	}
	var out strings.Builder
	for _, der := range slices.Sorted(maps.Keys(set)) {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)}))
	}
	return out.String()
}
