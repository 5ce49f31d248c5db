package ecs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// Limits of what is sent (ECS service quotas, and ECS API, TaskOverride).
const (
	maxDefinition = 64 << 10
	maxOverrides  = 8192
	minStop       = 2
	maxStop       = 120
)

// definitionOf translates the shape of a pod: nothing in it differs between two
// pods of one template. Its family is a hash of the rest, so that one
// registration serves all of them.
func definitionOf(cfg Config, spec backend.LaunchSpec) (*awsecs.RegisterTaskDefinitionInput, error) {
	pod := &spec.Pod.Spec
	if err := literals(pod); err != nil {
		return nil, err
	}
	size, err := fit(needOf(pod))
	if err != nil {
		return nil, backend.Classed(backend.ErrUnsupported, err)
	}
	in := &awsecs.RegisterTaskDefinitionInput{
		RequiresCompatibilities: []types.Compatibility{types.CompatibilityFargate},
		NetworkMode:             types.NetworkModeAwsvpc,
		Cpu:                     aws.String(strconv.FormatInt(size.cpu, 10)),
		Memory:                  aws.String(strconv.FormatInt(size.memoryMiB, 10)),
		ExecutionRoleArn:        optional(cfg.ExecutionRoleARN),
		TaskRoleArn:             optional(cfg.TaskRoleARN),
		RuntimePlatform: &types.RuntimePlatform{
			OperatingSystemFamily: types.OSFamilyLinux, CpuArchitecture: types.CPUArchitecture(cfg.CPUArchitecture),
		},
	}
	if aws.ToBool(pod.ShareProcessNamespace) {
		in.PidMode = types.PidModeTask
	}
	before := ""
	for _, c := range spec.Containers {
		def := containerOf(cfg, pod, c, size)
		if before != "" {
			// One init container after the other, then the app containers. No
			// startTimeout: without it there is no bound on how long one may take.
			def.DependsOn = []types.ContainerDependency{{ContainerName: aws.String(before), Condition: types.ContainerConditionSuccess}}
		}
		if c.Init {
			before = c.Container.Name
		}
		in.ContainerDefinitions = append(in.ContainerDefinitions, def)
	}
	content, err := normal(in)
	if err != nil {
		return nil, err
	}
	if len(content) > maxDefinition {
		return nil, backend.Errorf(backend.ErrInvalid, "the task definition has %d bytes, ECS takes %d: shorten env, command or args", len(content), maxDefinition)
	}
	in.Family = aws.String("burstlet-" + hashed(content))
	return in, nil
}

// containerOf translates one container.
func containerOf(cfg Config, pod *corev1.PodSpec, spec backend.ContainerSpec, size fargateSize) types.ContainerDefinition {
	c := spec.Container
	def := types.ContainerDefinition{
		Name:             aws.String(c.Name),
		Image:            aws.String(c.Image),
		Essential:        aws.Bool(!spec.Init),
		EntryPoint:       c.Command,
		Command:          c.Args,
		WorkingDirectory: optional(c.WorkingDir),
		StopTimeout:      aws.Int32(stopTimeout(pod)),
		LogConfiguration: logging(cfg),
	}
	for _, e := range c.Env {
		def.Environment = append(def.Environment, types.KeyValuePair{Name: aws.String(e.Name), Value: aws.String(e.Value)})
	}
	for _, p := range c.Ports {
		def.PortMappings = append(def.PortMappings, types.PortMapping{
			ContainerPort: aws.Int32(p.ContainerPort), Protocol: portProtocol(p.Protocol),
		})
	}
	if c.Stdin {
		def.Interactive = aws.Bool(true)
	}
	if c.TTY {
		def.PseudoTerminal = aws.Bool(true)
	}
	// The container's own bound, below the task's. Init containers have none: the
	// sum of all would have to fit in the task although they run before the others.
	if limit, ok := c.Resources.Limits[corev1.ResourceMemory]; ok && !spec.Init {
		if m := needOfContainer(corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: limit}}).memoryMiB; m > 0 && m < size.memoryMiB {
			def.Memory = aws.Int32(int32(m))
		}
	}
	secure(&def, pod.SecurityContext, c.SecurityContext)
	return def
}

// secure translates the security contexts, the container's before the pod's.
func secure(def *types.ContainerDefinition, pod *corev1.PodSecurityContext, own *corev1.SecurityContext) {
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	user, group := first(own.RunAsUser, pod.RunAsUser), first(own.RunAsGroup, pod.RunAsGroup)
	if user != nil {
		u := strconv.FormatInt(*user, 10)
		if group != nil {
			u += ":" + strconv.FormatInt(*group, 10)
		}
		def.User = aws.String(u)
	}
	if aws.ToBool(own.ReadOnlyRootFilesystem) {
		def.ReadonlyRootFilesystem = aws.Bool(true)
	}
	if caps := own.Capabilities; caps != nil && len(caps.Add)+len(caps.Drop) > 0 {
		def.LinuxParameters = &types.LinuxParameters{Capabilities: &types.KernelCapabilities{Add: capabilityNames(caps.Add), Drop: capabilityNames(caps.Drop)}}
	}
}

func capabilityNames(caps []corev1.Capability) []string {
	var out []string
	for _, c := range caps {
		out = append(out, string(c))
	}
	return out
}

// stopTimeout is the grace between SIGTERM and SIGKILL, within what ECS takes
// (ECS API, ContainerDefinition: stopTimeout). A longer one was refused.
func stopTimeout(pod *corev1.PodSpec) int32 {
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if pod.TerminationGracePeriodSeconds != nil {
		grace = *pod.TerminationGracePeriodSeconds
	}
	return int32(min(max(grace, minStop), maxStop))
}

func portProtocol(p corev1.Protocol) types.TransportProtocol {
	if p == corev1.ProtocolUDP {
		return types.TransportProtocolUdp
	}
	return types.TransportProtocolTcp
}

// logging is ECS developer guide, "Using the awslogs log driver". As on a node, a
// slow log does not block the container.
func logging(cfg Config) *types.LogConfiguration {
	if cfg.LogGroup == "" {
		return nil
	}
	return &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: map[string]string{
		"awslogs-group": cfg.LogGroup, "awslogs-region": cfg.Region, "awslogs-stream-prefix": "burstlet",
		"mode": "non-blocking", "max-buffer-size": "25m",
	}}
}

// runOf is the request for one attempt of a pod. It is a function of the pod and
// the configuration alone: a repeated request must be the same to the byte.
func runOf(cfg Config, spec backend.LaunchSpec, family string) (*awsecs.RunTaskInput, error) {
	id := identityOf(cfg.NodeIdentity, spec)
	text, err := id.encode()
	if err != nil {
		return nil, err
	}
	public := types.AssignPublicIpDisabled
	if cfg.AssignPublicIP {
		public = types.AssignPublicIpEnabled
	}
	last := spec.Containers[len(spec.Containers)-1].Container.Name
	in := &awsecs.RunTaskInput{
		Cluster:        aws.String(cfg.Cluster),
		TaskDefinition: aws.String(family),
		LaunchType:     types.LaunchTypeFargate,
		ClientToken:    aws.String(clientToken(id.UID, id.Attempt, 0)),
		StartedBy:      aws.String(startedBy(cfg.NodeIdentity)),
		Tags:           id.tags(),
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{
			Subnets: cfg.Subnets, SecurityGroups: cfg.SecurityGroups, AssignPublicIp: public,
		}},
		Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{
			Name:        aws.String(last),
			Environment: []types.KeyValuePair{{Name: aws.String(identityEnv), Value: aws.String(text)}},
		}}},
	}
	size, err := normal(in.Overrides)
	if err != nil {
		return nil, err
	}
	if len(size) > maxOverrides {
		return nil, backend.Errorf(backend.ErrInvalid, "the overrides have %d characters, ECS takes %d: use shorter names", len(size), maxOverrides)
	}
	return in, nil
}

// normal is JSON of what is set, the same for the same content: members sorted,
// those that are null or empty left out, so that a field added to the SDK changes
// nothing. Names are as long as on the wire.
func normal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	var tree any
	if err := json.Unmarshal(b, &tree); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // as the SDK writes it
	if err := enc.Encode(prune(tree)); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if x == nil || x == "" {
				delete(v, k)
				continue
			}
			v[k] = prune(x)
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
	}
	return v
}

// optional is nil for "".
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// first is the first that is set.
func first[T any](ps ...*T) *T {
	for _, p := range ps {
		if p != nil {
			return p
		}
	}
	return nil
}
