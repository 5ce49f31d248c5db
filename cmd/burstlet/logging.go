package main

import (
	"fmt"

	"github.com/containerd/log"
	"k8s.io/klog/v2"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider/klogs"
)

// setUpLogging sets what the process logs to standard error.
func setUpLogging(cfg config.Logging) error {
	if err := log.SetLevel(cfg.Level); err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	format := log.TextFormat
	if cfg.Format == config.FormatJSON {
		format = log.JSONFormat
	}
	if err := log.SetFormat(format); err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	klog.SetLogger(klogs.New(log.L.WithField("from", "kubernetes")))
	return nil
}
