package objectcache

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// useRuntimeClasses reads the handler of the pod's RuntimeClass, which never
// changes.
func (c *Cache) useRuntimeClasses(e *podEntry, after []string) {
	use(c, e, e.handlers, e.refs.RuntimeClasses, after, func(ctx context.Context, name string) (string, error) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		class, err := c.client.NodeV1().RuntimeClasses().Get(call, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return class.Handler, nil
	})
}
