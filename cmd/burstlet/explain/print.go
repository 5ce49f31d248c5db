package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// print writes an explanation for people: what is refused first.
func (e explanation) print(out io.Writer) error {
	var text bytes.Buffer // nothing fails to write into it
	verdict := "accepted"
	if !e.Accepted {
		verdict = "REFUSED"
	}
	fmt.Fprintf(&text, "%s on node %s (%s): %s\n", e.Pod, e.Node, e.Backend, verdict)
	var lines strings.Builder
	for _, f := range e.Refused {
		fmt.Fprintf(&lines, "  REFUSED\t%s\t%s\n", f.Field, f.How)
	}
	for _, f := range e.Taken {
		line := "  taken\t" + f.Field
		if f.How != "" {
			line += "\t" + f.How
		}
		lines.WriteString(line + "\n")
	}
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	if _, err := table.Write([]byte(lines.String())); err != nil {
		return err
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, note := range e.Notes {
		fmt.Fprintf(&text, "  note: %s\n", note)
	}
	for _, c := range e.Containers {
		kind := "container"
		if c.Init {
			kind = "init container"
		}
		fmt.Fprintf(&text, "  %s %s: %s\n", kind, c.Name,
			strings.Join(slices.Concat([]string{c.Image}, c.Command, c.Args), " "))
	}
	if e.Host != nil {
		if err := printHost(&text, e.Host); err != nil {
			return err
		}
	}
	if e.Task != nil {
		if err := printTask(&text, e.Task); err != nil {
			return err
		}
	}
	_, err := out.Write(text.Bytes())
	return err
}

func printTask(text *bytes.Buffer, t *taskdef.Preview) error {
	fmt.Fprintf(text, "  size: %g vCPU, %g GiB, %d GiB of ephemeral storage, %s; capacity %s\n",
		t.VCPU, t.MemoryGiB, t.StorageGiB, t.Architecture, strings.Join(t.CapacityTypes, " then "))
	if t.ExecMiB > 0 {
		fmt.Fprintf(text, "  exec: %d MiB of the memory are for ECS Exec's agents, one in each container; annotation "+
			"%sexec: \"false\" does without\n", t.ExecMiB, taskdef.Prefix)
	}
	if t.Volume != "" {
		fmt.Fprintf(text, "  volume: %s, made for the pod and deleted with its task\n", t.Volume)
	}
	fmt.Fprintf(text, "  price: $%.5f an hour on demand, $%.5f on Spot (%s)\n", t.OnDemand, t.Spot, t.Prices)
	if t.Files != "" {
		fmt.Fprintf(text, "  files of this pod alone: %s\n", t.Files)
	}
	for _, part := range []struct {
		name string
		json json.RawMessage
	}{{"task definition", t.TaskDefinition}, {"RunTask", t.RunTask}} {
		fmt.Fprintf(text, "  %s:\n    ", part.name)
		if err := json.Indent(text, part.json, "    ", "  "); err != nil {
			return fmt.Errorf("print %s: %w", part.name, err)
		}
		text.WriteString("\n")
	}
	return nil
}
