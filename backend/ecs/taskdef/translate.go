package taskdef

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// Limits of what is sent (ECS service quotas, and ECS API, TaskOverride).
const (
	maxDefinition = 64 << 10
	maxOverrides  = 8192
	minStop       = 2
	maxStop       = 120
)

// definitionOf translates the shape of a pod: nothing in it differs between two
// pods of one template, and no value of a Secret stands in it. Its family is the
// node and a hash of the rest, so that one registration serves all of them.
func definitionOf(
	cfg Config, spec backend.LaunchSpec, refs Refs, images Images,
) (*awsecs.RegisterTaskDefinitionInput, error) {
	pod := &spec.Pod.Spec
	set, err := settingsFor(cfg, spec.Pod)
	if err != nil {
		return nil, err
	}
	size, err := fargate.Fit(needOf(pod, set.execOf(cfg)).Size, cfg.Rates.OrPublished(cfg.Region), set.arch)
	if err != nil {
		return nil, backend.Classed(backend.ErrUnsupported, err)
	}
	plan, err := volumesOf(spec, size, cfg.Region, set.taskRole)
	if err != nil {
		return nil, err
	}
	if cfg.TaskImage == "" && len(plan.files) > 0 {
		return nil, backend.Errorf(backend.ErrUnsupported, "volumes: %s", whyTaskImage)
	}
	in := taskOf(set, pod, size)
	in.Volumes = plan.volumes
	t := translator{cfg: cfg, set: set, spec: spec, refs: refs, images: images, size: size, plan: plan}
	in.Volumes = append(in.Volumes, t.ownVolumes()...)
	if in.ContainerDefinitions, err = t.containers(); err != nil {
		return nil, err
	}
	content, err := normal(in)
	if err != nil {
		return nil, err
	}
	in.Family = aws.String(identity.FamilyPrefix(cfg.NodeIdentity) + identity.Hash(content)[:familyHash])
	if content, err = normal(in); err != nil {
		return nil, err
	}
	if len(content) > maxDefinition {
		return nil, backend.Errorf(backend.ErrInvalid,
			"the task definition has %d bytes, ECS takes %d: shorten env, command or args", len(content), maxDefinition)
	}
	return in, nil
}

// Translate is the definition and the request for one try of a launch, whose payload
// stands at refs. It is a function of its input alone: a repeated request is the same
// to the byte. Errors: Unsupported and Invalid.
func Translate(
	cfg Config, spec backend.LaunchSpec, refs Refs, images Images,
) (*awsecs.RegisterTaskDefinitionInput, *awsecs.RunTaskInput, error) {
	def, err := definitionOf(cfg, spec, refs, images)
	if err != nil {
		return nil, nil, err
	}
	run, err := runOf(cfg, spec, refs, images, *def.Family)
	if err != nil {
		return nil, nil, err
	}
	return def, run, nil
}

// familyHash is how many characters of the hash stand in a family's name: 160
// bits.
const familyHash = 32

// Arch is the architecture of a pod's task, in Go's words. Errors: Unsupported.
func Arch(cfg Config, pod *corev1.Pod) (string, error) {
	set, err := settingsFor(cfg, pod)
	return fargate.GoArch(set.arch), err
}

// settingsFor are settingsOf with what is wrong as an error of class Unsupported.
func settingsFor(cfg Config, pod *corev1.Pod) (settings, error) {
	set, refused := settingsOf(cfg, pod)
	return set, refusedError(refused)
}

// refusedError is nil without refusals. Errors: Unsupported.
func refusedError(refused []refusal) error {
	if len(refused) == 0 {
		return nil
	}
	texts := make([]string, len(refused))
	for i, r := range refused {
		texts[i] = r.Field + ": " + r.Why
	}
	return backend.Errorf(backend.ErrUnsupported, "%s", strings.Join(texts, "; "))
}

// taskOf are the members of a definition that concern the whole task.
func taskOf(set settings, pod *corev1.PodSpec, size fargate.Size) *awsecs.RegisterTaskDefinitionInput {
	in := &awsecs.RegisterTaskDefinitionInput{
		RequiresCompatibilities: []types.Compatibility{types.CompatibilityFargate},
		NetworkMode:             types.NetworkModeAwsvpc,
		Cpu:                     aws.String(strconv.FormatInt(size.CPU, 10)),
		Memory:                  aws.String(strconv.FormatInt(size.MemoryMiB, 10)),
		ExecutionRoleArn:        optional(set.executionRole),
		TaskRoleArn:             optional(set.taskRole),
		RuntimePlatform: &types.RuntimePlatform{
			OperatingSystemFamily: types.OSFamilyLinux, CpuArchitecture: types.CPUArchitecture(set.arch),
		},
	}
	if aws.ToBool(pod.ShareProcessNamespace) {
		in.PidMode = types.PidModeTask
	}
	if g := storageOf(pod, set.storageGiB); g > 0 {
		in.EphemeralStorage = &types.EphemeralStorage{SizeInGiB: g}
	}
	return in
}

// Preflight translates with references as long as real ones can be, so that every
// limit is told before anything is made. Errors: Unsupported and Invalid.
func Preflight(cfg Config, spec backend.LaunchSpec, images Images) error {
	_, _, err := Translate(cfg, spec, placeholders(cfg, spec), images)
	return err
}

// identityOf is what the task of a launch is for.
func identityOf(cfg Config, spec backend.LaunchSpec) identity.Task {
	id := identity.Task{
		Node: cfg.NodeIdentity, UID: spec.Pod.UID, Namespace: spec.Pod.Namespace,
		Name: spec.Pod.Name, Attempt: spec.Attempt,
		Grace: stopTimeout(&spec.Pod.Spec),
	}
	for _, c := range spec.Containers {
		id.Containers = append(id.Containers, identity.Container{
			Name: c.Container.Name, Init: c.Init, Sidecar: sidecarSpec(c), Attempt: c.Attempt, Hash: c.Hash,
			Supervised: cfg.TaskImage != "",
			Fallback:   c.Container.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError,
		})
	}
	return id
}

// reportKeyLength is how many characters Refs.ReportKey has.
const reportKeyLength = 43

// placeholders are references to payloads that were not stored.
func placeholders(cfg Config, spec backend.LaunchSpec) Refs {
	arn := func(what string) string {
		return "arn:aws:secretsmanager:" + cfg.Region + ":000000000000:secret:burstlet/" +
			identity.NodeKey(cfg.NodeIdentity) + "/" + what + "-000000"
	}
	hash := strings.Repeat("x", 2*familyHash)
	refs := Refs{PullARNs: map[string]string{}, ReportKey: strings.Repeat("x", reportKeyLength)}
	if len(SecretEnv(spec)) > 0 {
		refs.EnvARN = arn("env/" + hash)
	}
	shared, own := Files(spec)
	if len(shared) > 0 {
		refs.FilesARNs = []string{arn("files/" + hash)}
	}
	if len(own)+len(shared) > 0 {
		refs.PodName = "burstlet/" + identity.NodeKey(cfg.NodeIdentity) + "/pod/" + hash
		refs.PodKey, refs.PodStored = hash, len(own) > 0
	}
	if len(shared) > 0 {
		refs.FilesTag = hash[:FilesTagLength]
	}
	for name := range PullLogins(spec) {
		refs.PullARNs[name] = arn("pull/" + hash)
	}
	return refs
}

// runOf is the request for one try of an attempt of a pod.
func runOf(cfg Config, spec backend.LaunchSpec, refs Refs, images Images, family string) (*awsecs.RunTaskInput, error) {
	set, err := settingsFor(cfg, spec.Pod)
	if err != nil {
		return nil, err
	}
	id := identityOf(cfg, spec)
	volume, made, err := madeVolume(set.ebs, spec)
	if err != nil {
		return nil, err
	}
	id.Disk, id.Files, id.NoExec = made, refs.FilesTag, !set.exec
	if set.log.driver != driverAWSLogs { // what a supervisor says of an end, nobody reads
		for i := range id.Containers {
			id.Containers[i].Supervised = false
		}
	}
	public := types.AssignPublicIpDisabled
	if set.publicIP {
		public = types.AssignPublicIpEnabled
	}
	subnets, capacity := placeOf(set, spec.Pod.UID, spec.Try)
	in := &awsecs.RunTaskInput{
		Cluster:         aws.String(cfg.Cluster),
		TaskDefinition:  aws.String(family),
		ClientToken:     aws.String(identity.ClientToken(id.UID, id.Attempt, spec.Try)),
		StartedBy:       aws.String(identity.StartedBy(cfg.NodeIdentity)),
		PlatformVersion: optional(set.platformVersion),
		Tags:            id.Tags(),
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{
			Subnets: subnets, SecurityGroups: set.securityGroups, AssignPublicIp: public,
		}},
	}
	if capacity == ecsconfig.CapacitySpot {
		// ECS API, RunTask: Spot is had by a strategy alone.
		in.CapacityProviderStrategy = []types.CapacityProviderStrategyItem{
			{CapacityProvider: aws.String("FARGATE_SPOT"), Weight: 1},
		}
	} else {
		in.LaunchType = types.LaunchTypeFargate
	}
	if made != nil {
		in.VolumeConfigurations = []types.TaskVolumeConfiguration{configured(volume, made, set.ebs, id.Tags())}
	}
	in.EnableExecuteCommand = set.reachable(cfg)
	t := translator{cfg: cfg, set: set, spec: spec, refs: refs, images: images}
	if in.Overrides, err = t.overrides(id); err != nil {
		return nil, err
	}
	size, err := normal(in.Overrides)
	if err != nil {
		return nil, err
	}
	if n := len([]rune(string(size))); n > maxOverrides {
		return nil, backend.Errorf(backend.ErrInvalid, "the overrides have %d characters, ECS takes %d: use "+
			"fewer or shorter variables and args that differ between pods (fieldRef), and "+
			"shorter names", n, maxOverrides)
	}
	return in, nil
}

// overridesOf are what differs between pods of one shape: their identity, with
// the last app container, their own variables and words, and where burstlet-init and
// burstlet-agent find their files.
func (t *translator) overrides(id identity.Task) (*types.TaskOverride, error) {
	text, err := id.Encode()
	if err != nil {
		return nil, err
	}
	out := &types.TaskOverride{}
	payload := pairs(intask.EnvPayload, t.refs.PodName, intask.EnvPayloadKey, t.refs.PodKey)
	if t.refs.PodStored {
		out.ContainerOverrides = append(out.ContainerOverrides,
			types.ContainerOverride{Name: aws.String(identity.InitName), Environment: payload})
	}
	var agent []types.KeyValuePair
	if t.refreshes() {
		agent = append(agent, payload...)
	}
	if _, lives := reported(t.cfg, t.set, t.spec); t.refs.ReportKey != "" && len(lives) > 0 {
		agent = append(agent, pairs(intask.EnvReportKey, t.refs.ReportKey)...)
	}
	if len(agent) > 0 {
		out.ContainerOverrides = append(out.ContainerOverrides,
			types.ContainerOverride{Name: aws.String(identity.AgentName), Environment: agent})
	}
	for i, c := range t.spec.Containers {
		env, err := environmentOf(c)
		if err != nil {
			return nil, err
		}
		run, err := t.words(c)
		if err != nil {
			return nil, err
		}
		env.own = append(env.own, hostnameVariable(t.cfg, c)...)
		if i == len(t.spec.Containers)-1 {
			env.own = append(pairs(identity.Env, text), env.own...)
		}
		if len(env.own)+len(run.own) > 0 {
			out.ContainerOverrides = append(out.ContainerOverrides, types.ContainerOverride{
				Name: aws.String(c.Container.Name), Command: run.own, Environment: env.own,
			})
		}
	}
	return out, nil
}

// pairs makes an environment of names and values in turn.
func pairs(words ...string) []types.KeyValuePair {
	var out []types.KeyValuePair
	for i := 0; i+1 < len(words); i += 2 {
		out = append(out, types.KeyValuePair{Name: aws.String(words[i]), Value: aws.String(words[i+1])})
	}
	return out
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
