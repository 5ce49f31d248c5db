package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/backends"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// nodeTimeout bounds the diagnosis of one node's cluster, and of its backend.
const nodeTimeout = 2 * time.Minute

// Options say what is diagnosed.
type Options struct {
	// Version is burstlet's own: API servers and a "burstlet sim" are told it.
	Version string
	// BackendOnly leaves out the cluster.
	BackendOnly bool
}

func (o Options) userAgent() string { return "burstlet/" + o.Version + " doctor" }

// Run diagnoses one node after the other and prints what it finds. Errors: how many
// checks failed, or that one could not be made.
func Run(ctx context.Context, out io.Writer, nodes []config.Configuration, o Options) error {
	failed := 0
	for i, node := range nodes {
		found, err := diagnoseNode(ctx, node, o)
		if err != nil {
			return fmt.Errorf("look at node %s: %w", node.Node.Name, err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("look at node %s: %w", node.Node.Name, ctx.Err())
		}
		found = append(found, sharedHost(nodes, i)...)
		n, err := printFindings(out, node.Node.Name, place(node.Backend), found)
		if err != nil {
			return err
		}
		failed += n
	}
	switch failed {
	case 0:
		return nil
	case 1:
		return errors.New("one check failed")
	default:
		return fmt.Errorf("%d checks failed", failed)
	}
}

// diagnoseNode diagnoses the node's cluster, if it is to, and then its backend.
func diagnoseNode(ctx context.Context, c config.Configuration, o Options) ([]backend.Finding, error) {
	var found []backend.Finding
	identity := access.StandInIdentity(c)
	if !o.BackendOnly {
		found, identity = diagnoseCluster(ctx, c, o)
	}
	kind, err := backends.Of(c.Backend.Type)
	if err != nil {
		return found, err
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	more, err := kind.Diagnose(ctx, backends.Node{
		Config: c, Identity: identity, StandIn: c.Node.Identity == "" && identity == access.StandInIdentity(c),
		Version: o.Version,
	})
	return append(found, more...), err
}

// place is the kind of a backend and where its pods run.
func place(b config.Backend) string {
	if kind, err := backends.Of(b.Type); err == nil {
		return strings.TrimSpace(b.Type + " " + kind.Place(b))
	}
	return b.Type
}

// printFindings prints a node's lines and returns how many failed.
func printFindings(out io.Writer, node, where string, found []backend.Finding) (failed int, err error) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	lines := []string{fmt.Sprintf("node %s (%s)\n", node, where)}
	for _, f := range found {
		verdict := "FAIL"
		switch {
		case f.OK:
			verdict = "ok"
		case f.Warn:
			verdict = "warn"
		default:
			failed++
		}
		lines = append(lines, fmt.Sprintf("  %s\t%s\t%s\n", verdict, f.What, findingText(f)))
	}
	for _, line := range lines {
		if _, err := io.WriteString(table, line); err != nil {
			return failed, fmt.Errorf("print: %w", err)
		}
	}
	if err := table.Flush(); err != nil {
		return failed, fmt.Errorf("print: %w", err)
	}
	return failed, nil
}

// findingText is what was found and what to do, in one line.
func findingText(f backend.Finding) string {
	text := strings.NewReplacer("\n", "; ", "\t", " ").Replace(f.Detail)
	if f.Advice != "" {
		text += ": " + f.Advice
	}
	return text
}
