package resolve

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/burstlet/burstlet/backend"
)

// ErrWaiting means that something is not known yet. There is nothing to tell the
// user: it will be known, or be an error, in a moment.
var ErrWaiting = errors.New("not known yet")

// optional is an API pointer's value.
func optional(b *bool) bool { return b != nil && *b }

// missing reports an error that says that an object does not exist. No other
// error is forgiven an optional reference.
func missing(err error) bool {
	return apierrors.IsNotFound(err) || errors.Is(err, backend.ErrNotFound)
}

// configMap finds a ConfigMap. Nil without an error is an optional one that does
// not exist.
func (o Objects) configMap(name string, mayLack bool) (*corev1.ConfigMap, error) {
	return find(o.ConfigMaps, "configmap", name, mayLack)
}

// secret finds a Secret, as configMap does.
func (o Objects) secret(name string, mayLack bool) (*corev1.Secret, error) {
	return find(o.Secrets, "secret", name, mayLack)
}

func find[T any](objects map[string]Object[*T], kind, name string, mayLack bool) (*T, error) {
	object, known := objects[name]
	switch {
	case !known:
		return nil, fmt.Errorf("%s %q: %w", kind, name, ErrWaiting)
	case object.Err == nil && object.Value != nil:
		return object.Value, nil
	case object.Err != nil && !missing(object.Err):
		return nil, object.Err
	case mayLack:
		return nil, nil
	}
	// The kubelet's watches name the kind in the singular; a GET would not.
	return nil, apierrors.NewNotFound(corev1.Resource(kind), name)
}
