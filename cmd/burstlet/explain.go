package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/cri"
	"github.com/burstlet/burstlet/backend/ecs"
	"github.com/burstlet/burstlet/backend/sim"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// identityOr is a node's identity if it is configured. Otherwise it needs the
// cluster, and a word stands in for it: names on ECS that hold it are not the real
// ones.
func identityOr(c config.Configuration) string {
	return cmp.Or(c.Node.Identity, "explain")
}

func newExplainCommand() *cobra.Command {
	var file, format string
	var pods []string
	cmd := &cobra.Command{
		Use:   "explain -f FILE",
		Short: "Say what would become of a pod: taken or refused, and what it costs",
		Long: `Say of each pod in a file what would become of it on each node of the
configuration: the fields that are refused, with why, and what becomes of the
others; on ECS the size and the price of an hour, and the task that it turns into; on
a container host the sandbox, its cgroup, the volumes, and the containers in the order
in which they start. With a pod that is refused the command exits with 1.

The file holds Pods, or Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs
and CronJobs, whose templates are looked at; other kinds are passed over. Neither
the cluster nor the remote is asked: what stands in ConfigMaps, Secrets and claims
is not known here, and no value of a Secret is shown.

Settings come from the same places as those of "burstlet run".`,
		Example: `  burstlet explain -f pod.yaml --config burstlet.yaml
  kubectl get deployment web -o yaml | burstlet explain -f - --config burstlet.yaml -o json`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&pods, "filename", "f", nil, "YAML or JSON file with pods; - is standard input; may be repeated")
	flags.StringVarP(&format, "output", "o", config.FormatText, "text or json")
	flags.StringVar(&file, "config", "", "YAML file with the configuration ($"+config.FileEnv+")")
	addSettings(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format != config.FormatText && format != config.FormatJSON {
			return fmt.Errorf("flag --output: %q is not text or json", format)
		}
		cfg, err := config.Load(config.Sources{File: file, LookupEnv: os.LookupEnv, Flags: givenSettings(flags), PodNamespace: podNamespace()})
		if err != nil {
			return err
		}
		found, err := readTemplates(cmd.InOrStdin(), pods)
		if err != nil {
			return err
		}
		return explainTemplates(cmd.Context(), cmd.OutOrStdout(), cfg.Each(), found, format)
	}
	return cmd
}

// explanation is what would become of one pod on one node.
type explanation struct {
	Node     string `json:"node"`
	Backend  string `json:"backend"`
	Pod      string `json:"pod"`
	Accepted bool   `json:"accepted"`
	// Refused come first: what keeps the pod from running.
	Refused []fieldFate `json:"refused,omitempty"`
	Taken   []fieldFate `json:"taken,omitempty"`
	// Containers are what would run, on the simulated backend.
	Containers []explainedContainer `json:"containers,omitempty"`
	// Host is what it turns into on a container host, Task on ECS; neither of a pod
	// that is refused.
	Host  *cri.Preview `json:"host,omitempty"`
	Task  *ecs.Preview `json:"task,omitempty"`
	Notes []string     `json:"notes,omitempty"`
}

// fieldFate is what becomes of one field.
type fieldFate struct {
	Field string `json:"field"`
	// How says what it becomes, or why it is refused.
	How string `json:"how,omitempty"`
}

type explainedContainer struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Init    bool     `json:"init,omitempty"`
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
}

// explainTemplates prints what becomes of each pod on each node.
func explainTemplates(ctx context.Context, out io.Writer, nodes []config.Configuration, pods []template, format string) error {
	var all []explanation
	refused := 0
	for _, node := range nodes {
		b, err := explainedBackend(ctx, node)
		if err != nil {
			return fmt.Errorf("node %s: %w", node.Node.Name, err)
		}
		for _, pod := range pods {
			e, err := explain(ctx, node, b, pod)
			if err != nil {
				return fmt.Errorf("%s on node %s: %w", pod.name, node.Node.Name, err)
			}
			if !e.Accepted {
				refused++
			}
			all = append(all, e)
		}
	}
	if err := printExplanations(out, all, format); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	switch refused {
	case 0:
		return nil
	case 1:
		return errors.New("one pod is refused")
	}
	return fmt.Errorf("%d pods are refused", refused)
}

func printExplanations(out io.Writer, all []explanation, format string) error {
	if format == config.FormatJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(all)
	}
	for i, e := range all {
		if i > 0 {
			if _, err := fmt.Fprintln(out); err != nil {
				return err
			}
		}
		if err := e.print(out); err != nil {
			return err
		}
	}
	return nil
}

// explainedBackend is a node's backend for the questions that are answered without
// the remote.
func explainedBackend(ctx context.Context, c config.Configuration) (backend.Backend, error) {
	switch c.Backend.Type {
	case config.BackendCRI:
		b, err := cri.New(criConfig(c, identityOr(c)))
		if err != nil {
			return backend.Backend{}, err
		}
		return *b, nil
	case config.BackendECS:
		return ecs.New(ctx, ecsConfig(c, identityOr(c)))
	default:
		remote := sim.New(sim.Config{Node: identityOr(c), PodUnit: c.Backend.Sim != nil && c.Backend.Sim.Granularity == config.GranularityPod})
		return remote.Backend(), nil
	}
}

// explain looks at one pod on one node.
func explain(ctx context.Context, c config.Configuration, b backend.Backend, t template) (explanation, error) {
	e := explanation{Node: c.Node.Name, Backend: c.Backend.Type, Pod: t.name, Notes: t.notes}
	for _, r := range allRefusals(c, b, t.pod) {
		e.Refused = append(e.Refused, fieldFate{r.Field, r.Why})
	}
	how := map[string]string{}
	switch c.Backend.Type {
	case config.BackendECS:
		how = ecs.Taken(ecsConfig(c, identityOr(c)), t.pod)
	case config.BackendCRI:
		how = cri.Taken(t.pod)
	}
	e.Taken = taken(t.pod, how, e.Refused)
	e.Accepted = len(e.Refused) == 0
	if c.Backend.Type != config.BackendECS && c.Backend.Type != config.BackendCRI {
		e.Containers = containersOf(t.pod)
		return e, nil
	}
	if !e.Accepted {
		return e, nil
	}
	err := e.preview(ctx, c, t.pod)
	if errors.Is(err, backend.ErrUnsupported) || errors.Is(err, backend.ErrInvalid) {
		e.Accepted, e.Refused = false, []fieldFate{{"spec", err.Error()}}
		return e, nil
	}
	return e, err
}

// preview says what the pod turns into. Errors: Unsupported and Invalid, as a launch
// has them.
func (e *explanation) preview(ctx context.Context, c config.Configuration, pod *corev1.Pod) error {
	spec, err := previewSpec(c, pod)
	if err != nil {
		return err
	}
	if c.Backend.Type == config.BackendCRI {
		host, err := cri.Explain(ctx, criConfig(c, identityOr(c)), spec)
		if err == nil {
			e.Host = &host
		}
		return err
	}
	task, err := ecs.Explain(ecsConfig(c, identityOr(c)), spec)
	if err == nil {
		e.Task = &task
	}
	return err
}

func containersOf(pod *corev1.Pod) []explainedContainer {
	var out []explainedContainer
	for i, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			out = append(out, explainedContainer{Name: c.Name, Image: c.Image, Init: i == 0, Command: c.Command, Args: c.Args})
		}
	}
	return out
}
