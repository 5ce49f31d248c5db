package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// diagnoseTimeout bounds the look at what went wrong.
const diagnoseTimeout = 2 * time.Minute

// diagnose shows what helps to see what went wrong, and keeps the logs.
func (d *demo) diagnose(ctx context.Context) {
	if d.kubeconfig == "" {
		return // the error says it all
	}
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	d.out.heading("Something went wrong")
	for _, args := range [][]string{
		{"get", "pods", "-o", "wide"},
		{"get", "events", "--sort-by", ".metadata.creationTimestamp"},
	} {
		d.out.command("kubectl", args...)
		output, err := d.runKubectl(ctx, args...)
		d.out.text(lastLines(output, tailLines))
		if err != nil {
			d.out.note("%v", err)
		}
	}
	if content, err := os.ReadFile(d.nodeLog()); err == nil {
		d.out.note("The end of burstlet's log:")
		d.out.text(lastLines(string(content), tailLines))
	}
	dir, err := d.keepLogs()
	if err != nil {
		d.out.note("keep the logs: %v", err)
		return
	}
	d.out.note("The logs of all programs are in %s", dir)
}

// keepLogs copies the logs out of the directories that are about to go. Nothing
// else is kept: keys stay where they are.
func (c *cluster) keepLogs() (string, error) {
	logs, err := filepath.Glob(filepath.Join(c.dir, "*.log"))
	if err != nil {
		return "", err
	}
	if c.plane != nil {
		for component := range c.plane.PIDs() {
			logs = append(logs, c.plane.LogPath(component))
		}
	}
	dir, err := os.MkdirTemp("", "burstlet-demo-logs-")
	if err != nil {
		return "", err
	}
	var errs []error
	for _, log := range logs {
		content, err := os.ReadFile(log)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(log)), content, 0o600)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return "", fmt.Errorf("copy to %s: %w", dir, err)
	}
	return dir, nil
}

// lastLines is the end of a text, at most n lines.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
