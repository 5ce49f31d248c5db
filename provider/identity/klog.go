package identity

import (
	"context"

	"github.com/containerd/log"
	"k8s.io/klog/v2"

	"github.com/burstlet/burstlet/provider/klogs"
)

// withManagerLogger returns a context for a certificate manager, whose errors
// become our warnings, because it tries again, and the rest is for debugging. It
// does not end: the manager would keep a goroutine to wait for that.
func withManagerLogger(ctx context.Context) context.Context {
	return klog.NewContext(context.WithoutCancel(ctx), klogs.New(log.G(ctx)))
}
