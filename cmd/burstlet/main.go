package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/containerd/log"
	"k8s.io/klog/v2"

	"github.com/burstlet/burstlet/provider/klogs"
)

func main() {
	klog.SetLogger(klogs.New(log.L.WithField("from", "kubernetes"))) // only here: klog must not be in use then
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	err := newRootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "burstlet:", err)
		os.Exit(exitStatus(err))
	}
}
