// Command prices writes the table of Fargate's prices by region, by which burstlet chooses sizes
// of tasks and tells costs (backend/ecs/fargate/pricelist.go). It reads the list that AWS serves
// its pricing page from:
//
//	go run ./tools/prices              # AWS's list of today
//	go run ./tools/prices --from FILE  # one that was kept
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// listURL is the list behind https://aws.amazon.com/fargate/pricing.
const listURL = "https://b0.p.awsstatic.com/pricing/2.0/meteredUnitMaps/ecs/USD/current/ecs.json"

// What a list may take, and have: it had 200 KB in 2025.
const (
	patience = time.Minute
	most     = 16 << 20
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prices:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var from, out string
	cmd := &cobra.Command{
		Use:           "prices",
		Short:         "Write the table of Fargate's prices by region from AWS's list",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := read(cmd.Context(), http.DefaultClient, from)
			if err != nil {
				return err
			}
			source, err := generate(list)
			if err != nil {
				return fmt.Errorf("%s: %w", from, err)
			}
			return os.WriteFile(out, source, 0o644)
		},
	}
	cmd.Flags().StringVar(&from, "from", listURL, "the list: a file, or an address that begins with https://")
	cmd.Flags().StringVar(&out, "out", "backend/ecs/fargate/pricelist.go", "the file to write")
	return cmd
}

// read returns the list, from a file or from AWS.
func read(ctx context.Context, client *http.Client, from string) ([]byte, error) {
	if !strings.HasPrefix(from, "https://") {
		return os.ReadFile(from)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", from, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, most))
}
