package taskdef

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// A health check asks a container's supervisor: one answer says it, so the shortest
// interval that ECS takes, and the longest timeout, since no answer in a task that is
// short of CPU says nothing (ECS API, HealthCheck).
const (
	checkInterval  = 5
	checkTimeout   = 60
	checkRetries   = 1
	maxStartPeriod = 300
)

// Defaults of a probe (Kubernetes API, Probe), for pods that no API server saw.
const (
	defaultPeriod    = 10
	defaultThreshold = 3
)

// judgedByRemote is true for a container of which ECS is to say whether it has started
// and is ready.
func judgedByRemote(c *corev1.Container) bool {
	return c.StartupProbe != nil || c.ReadinessProbe != nil || c.Lifecycle != nil && c.Lifecycle.PostStart != nil
}

// reported are the containers of which burstlet-agent tells by the queue of task events:
// whether they are ready, of those that ECS has to judge too, which shows it late; and how
// they ended, of those that ECS does not start again.
func reported(cfg Config, set settings, spec backend.LaunchSpec) (ready, lives []string) {
	if cfg.EventQueueURL == "" || cfg.TaskImage == "" || set.taskRole == "" {
		return nil, nil
	}
	for _, c := range spec.Containers {
		if judgedByRemote(&c.Container) && (!c.Init || sidecarSpec(c)) {
			ready = append(ready, c.Container.Name)
		}
		if !sidecarSpec(c) {
			lives = append(lives, c.Container.Name)
		}
	}
	return ready, lives
}

// healthCheckOf tells ECS whether a container has started and is ready; nil for one
// that is as soon as it runs. What liveness probes find its supervisor acts on by
// itself.
func healthCheckOf(c *corev1.Container) *types.HealthCheck {
	if !judgedByRemote(c) {
		return nil
	}
	return &types.HealthCheck{
		Command:  []string{"CMD", intask.Supervisor, "health"},
		Interval: aws.Int32(checkInterval), Timeout: aws.Int32(checkTimeout), Retries: aws.Int32(checkRetries),
		StartPeriod: startPeriod(c),
	}
}

// startPeriod is how long the start may take without a verdict that it has not.
func startPeriod(c *corev1.Container) *int32 {
	s := c.StartupProbe
	if s == nil {
		return nil
	}
	d := int64(s.InitialDelaySeconds) +
		int64(orDefault(s.PeriodSeconds, defaultPeriod))*int64(orDefault(s.FailureThreshold, defaultThreshold))
	return aws.Int32(int32(min(max(d, 1), maxStartPeriod)))
}

func orDefault(v, otherwise int32) int32 {
	if v == 0 {
		return otherwise
	}
	return v
}

// probeOf is a probe as the supervisor runs it.
func probeOf(p *corev1.Probe, c *corev1.Container) *intask.Probe {
	if p == nil {
		return nil
	}
	h := intask.Handler{TCP: socketOf(p.TCPSocket, c), HTTP: httpOf(p.HTTPGet, c)}
	if p.Exec != nil {
		h.Exec = expandLiteral(p.Exec.Command, c.Env)
	}
	if g := p.GRPC; g != nil {
		h.GRPC = &intask.GRPC{Port: g.Port, Service: aws.ToString(g.Service)}
	}
	return &intask.Probe{
		Handler: h, InitialDelay: p.InitialDelaySeconds, Period: p.PeriodSeconds, Timeout: p.TimeoutSeconds,
		SuccessThreshold: p.SuccessThreshold, FailureThreshold: p.FailureThreshold,
		Grace: p.TerminationGracePeriodSeconds,
	}
}

// hookOf is a lifecycle hook as the supervisor runs it. One with tcpSocket, which the
// API keeps for old pods, fails as on a kubelet.
func hookOf(h *corev1.LifecycleHandler, c *corev1.Container) *intask.Handler {
	if h == nil {
		return nil
	}
	out := &intask.Handler{TCP: socketOf(h.TCPSocket, c), HTTP: httpOf(h.HTTPGet, c)}
	if h.Exec != nil {
		out.Exec = h.Exec.Command
	}
	if h.Sleep != nil {
		out.Sleep = &h.Sleep.Seconds
	}
	return out
}

func socketOf(s *corev1.TCPSocketAction, c *corev1.Container) *intask.TCPSocket {
	if s == nil {
		return nil
	}
	return &intask.TCPSocket{Host: s.Host, Port: portOf(s.Port, c)}
}

func httpOf(g *corev1.HTTPGetAction, c *corev1.Container) *intask.HTTPGet {
	if g == nil {
		return nil
	}
	out := &intask.HTTPGet{Scheme: string(g.Scheme), Host: g.Host, Port: portOf(g.Port, c), Path: g.Path}
	for _, h := range g.HTTPHeaders {
		out.Headers = append(out.Headers, intask.Header{Name: h.Name, Value: h.Value})
	}
	return out
}

// portOf is a port by its number or by its name in the container; 0 is none, which
// fails when it is asked for.
func portOf(p intstr.IntOrString, c *corev1.Container) int32 {
	if p.Type == intstr.Int {
		return p.IntVal
	}
	for _, known := range c.Ports {
		if known.Name == p.StrVal {
			return known.ContainerPort
		}
	}
	return int32(p.IntValue()) // "80", as the kubelet reads it
}

// expandLiteral replaces $(NAME) by the literal variables of the pod, and what is none
// stays (kubelet: ExpandContainerCommandOnlyStatic).
func expandLiteral(words []string, env []corev1.EnvVar) []string {
	values := map[string]string{}
	for _, v := range env {
		if v.ValueFrom == nil {
			values[v.Name] = v.Value
		}
	}
	out := slices.Clone(words)
	for i, word := range out {
		out[i] = reference.ReplaceAllStringFunc(word, func(found string) string {
			if found == "$$" {
				return "$"
			}
			if value, ok := values[strings.TrimSuffix(strings.TrimPrefix(found, "$("), ")")]; ok {
				return value
			}
			return found
		})
	}
	return out
}
