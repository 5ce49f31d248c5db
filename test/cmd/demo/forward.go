package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// forwarding is what kubectl says when it listens.
var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) -> `)

// showForward asks a pod's own web server, through kubectl, for its ConfigMap's file.
func (d *demo) showForward(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	args := []string{"port-forward", "deployment/" + hello, ":8080"}
	d.out.command("kubectl", args...)
	cmd := exec.CommandContext(ctx, d.kubectlPath, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+d.kubeconfig)
	printed, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run kubectl: %w", err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run kubectl: %w", err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if err != nil {
			err = fmt.Errorf("%w; kubectl says %q", err, said.String())
		}
	}()
	for lines := bufio.NewScanner(printed); lines.Scan(); {
		if m := forwarding.FindStringSubmatch(lines.Text()); m != nil {
			d.out.text(lines.Text())
			return d.showPage(ctx, "http://"+m[1]+"/text")
		}
	}
	return errors.New("kubectl port-forward did not say where it listens")
}

// showPage fetches the greeting.
func (d *demo) showPage(ctx context.Context, url string) error {
	d.out.command("curl", url)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("fetch %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("fetch %s: %w", url, err)
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("fetch %s: %w", url, err)
	}
	d.out.text(string(body))
	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), "hello from") {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
