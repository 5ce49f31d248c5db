package main

import (
	"fmt"

	"github.com/containerd/log"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// setUpLogging sets what the process logs to standard error.
func setUpLogging(cfg config.Logging) error {
	if err := log.SetLevel(cfg.Level); err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	format := log.TextFormat
	switch cfg.Format {
	case config.FormatText:
	case config.FormatJSON:
		format = log.JSONFormat
	default:
		return fmt.Errorf("set up logging: format %q is not text or json", cfg.Format)
	}
	if err := log.SetFormat(format); err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	return nil
}
