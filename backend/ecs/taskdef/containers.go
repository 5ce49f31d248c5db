package taskdef

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// sidecarRestart is how long a sidecar must have run to be started again by ECS
// itself, in seconds (ECS API, ContainerRestartPolicy: the least). One that ends
// sooner ends the task, whose next attempt the engine's backoff delays.
const sidecarRestart = 60

// translator makes the containers of a definition.
type translator struct {
	cfg  Config
	set  settings
	spec backend.LaunchSpec
	refs Refs
	// images are what is known of the containers' images.
	images Images
	size   fargate.Size
	plan   volumePlan
}

// containers are burstlet-init, the init containers one after the other, sidecars
// among them, the app containers, and burstlet-agent.
//
//	after burstlet-init or an init container   when that has succeeded; there is no
//	                                           startTimeout: it may take as long as it wants
//	after a sidecar                            when that runs; with a startup probe or a
//	                                           postStart hook, when it is healthy, for
//	                                           which it must be ready too
//
// ECS stops them in the reverse order, so sidecars outlive what they serve.
func (t *translator) containers() ([]types.ContainerDefinition, error) {
	var out []types.ContainerDefinition
	var after []types.ContainerDependency
	if t.cfg.TaskImage != "" {
		c, err := t.initContainer()
		if err != nil {
			return nil, err
		}
		out, after = append(out, c), waitFor(identity.InitName, types.ContainerConditionSuccess)
	}
	var sidecars []types.ContainerDependency
	for _, spec := range t.spec.Containers {
		c, err := t.container(spec)
		if err != nil {
			return nil, err
		}
		c.DependsOn = slices.Concat(after, sidecars)
		switch {
		case sidecarSpec(spec) && startsLater(&spec.Container):
			sidecars = append(sidecars, waitFor(spec.Container.Name, types.ContainerConditionHealthy)...)
		case sidecarSpec(spec):
			sidecars = append(sidecars, waitFor(spec.Container.Name, types.ContainerConditionStart)...)
		case spec.Init:
			after = waitFor(spec.Container.Name, types.ContainerConditionSuccess)
		}
		out = append(out, c)
	}
	if t.cfg.TaskImage != "" {
		c := t.agent()
		// As the apps, not after them: an init container that fails must keep it from
		// starting, and with it end the task.
		c.DependsOn = slices.Concat(after, sidecars)
		out = append(out, c)
	}
	if n := len(out); n > maxContainers {
		return nil, backend.Errorf(backend.ErrUnsupported,
			"a Fargate task has at most %d containers, this has %d with burstlet's own", maxContainers, n)
	}
	return out, nil
}

func waitFor(name string, condition types.ContainerCondition) []types.ContainerDependency {
	return []types.ContainerDependency{{ContainerName: aws.String(name), Condition: condition}}
}

// startsLater is true for a container that has not started as soon as it runs.
func startsLater(c *corev1.Container) bool {
	return c.StartupProbe != nil || c.Lifecycle != nil && c.Lifecycle.PostStart != nil
}

// sidecarSpec is true for a restartable init container.
func sidecarSpec(spec backend.ContainerSpec) bool {
	return spec.Init && backend.IsSidecar(&spec.Container)
}

// container translates one of the pod's.
func (t *translator) container(spec backend.ContainerSpec) (types.ContainerDefinition, error) {
	c, pod := &spec.Container, &t.spec.Pod.Spec
	env, err := environmentOf(spec)
	if err != nil {
		return types.ContainerDefinition{}, err
	}
	run, err := t.words(spec)
	if err != nil {
		return types.ContainerDefinition{}, err
	}
	def := types.ContainerDefinition{
		Name:             aws.String(c.Name),
		Image:            aws.String(c.Image),
		Essential:        aws.Bool(!spec.Init && !anchored(pod)),
		EntryPoint:       run.entry,
		Command:          run.command,
		Environment:      env.shared,
		Secrets:          secretsOf(c.Name, env.secret, t.refs.EnvARN),
		WorkingDirectory: optional(c.WorkingDir),
		StopTimeout:      aws.Int32(stopTimeout(pod)),
		LogConfiguration: logging(t.cfg, t.set.log),
		MountPoints:      t.plan.mounts[c.Name],
		SystemControls:   systemControls(pod.SecurityContext),
	}
	for _, u := range t.set.ulimits {
		def.Ulimits = append(def.Ulimits, types.Ulimit{
			Name: types.UlimitName(u.name), SoftLimit: u.soft, HardLimit: u.hard,
		})
	}
	if arn := t.refs.PullARNs[c.Name]; arn != "" {
		def.RepositoryCredentials = &types.RepositoryCredentials{CredentialsParameter: aws.String(arn)}
	}
	if sidecarSpec(spec) {
		def.RestartPolicy = &types.ContainerRestartPolicy{
			Enabled: aws.Bool(true), RestartAttemptPeriod: aws.Int32(sidecarRestart),
		}
	}
	if c.Stdin {
		def.Interactive = aws.Bool(true)
	}
	if c.TTY {
		def.PseudoTerminal = aws.Bool(true)
	}
	t.bound(&def, spec)
	def.ReadonlyRootFilesystem = readOnly(readOnlyRoot(c))
	if t.cfg.TaskImage == "" {
		secure(&def, pod.SecurityContext, c.SecurityContext)
	} else if err := t.supervised(&def, spec); err != nil {
		return types.ContainerDefinition{}, err
	}
	t.linux(&def)
	return def, nil
}

// linux adds what a container has of Linux beside its capabilities.
func (t *translator) linux(def *types.ContainerDefinition) {
	tmpfs := t.plan.tmpfs[*def.Name]
	if len(tmpfs) == 0 && !t.set.initProcess {
		return
	}
	if def.LinuxParameters == nil {
		def.LinuxParameters = &types.LinuxParameters{}
	}
	def.LinuxParameters.Tmpfs = tmpfs
	if t.set.initProcess {
		def.LinuxParameters.InitProcessEnabled = aws.Bool(true)
	}
}

// bound sets a container's own limits, below the task's. Init containers have
// none: the sum of all would have to fit in the task although they run before the
// others. Whether the sum may be as much as the task has is told for cpu alone,
// so a limit of memory as large as the task is left to the task. What ECS Exec takes counts
// towards a container's limit, and is no part of what the pod asked for.
func (t *translator) bound(def *types.ContainerDefinition, spec backend.ContainerSpec) {
	if spec.Init && !sidecarSpec(spec) {
		return
	}
	r := spec.Container.Resources
	if limit, ok := r.Limits[corev1.ResourceMemory]; ok {
		m := amountsOf(corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: limit}}).MemoryMiB
		if m += t.set.execOf(t.cfg); limit.Sign() > 0 && m < t.size.MemoryMiB {
			def.Memory = aws.Int32(int32(m))
		}
	}
	if t.crowded() {
		// Shares, which matter beside other containers.
		request := amountsOf(corev1.ResourceRequirements{Requests: r.Requests}).CPU
		def.Cpu = int32(min(request, t.size.CPU))
	}
}

// crowded is true where several containers run at a time.
func (t *translator) crowded() bool {
	spec := &t.spec.Pod.Spec
	return len(spec.Containers) > 1 || slices.ContainsFunc(spec.InitContainers,
		func(c corev1.Container) bool { return backend.IsSidecar(&c) })
}

// words are what a container runs, or its supervisor with it.
func (t *translator) words(spec backend.ContainerSpec) (words, error) {
	if t.cfg.TaskImage == "" {
		return wordsOf(spec)
	}
	return supervisedWords(spec, t.images)
}

// initContainer puts the supervisor where the pod's containers find it and writes the
// files of volumes, before the others start. It runs as the image's user, root, to give
// files their owners.
func (t *translator) initContainer() (types.ContainerDefinition, error) {
	c := t.own(identity.InitName, intask.CommandMaterialize)
	c.Essential, c.ReadonlyRootFilesystem = aws.Bool(false), aws.Bool(true)
	c.MountPoints = append(t.runMounts(), types.MountPoint{
		SourceVolume: aws.String(binVolume), ContainerPath: aws.String(intask.BinDir),
	})
	c.MountPoints = append(c.MountPoints, t.plan.init...)
	c.Environment = pairs(intask.EnvRunDirs, strings.Join(t.names(true), ","))
	if len(t.plan.dirs) > 0 {
		dirs, err := json.Marshal(t.plan.dirs)
		if err != nil {
			return c, fmt.Errorf("encode directories: %w", err)
		}
		c.Environment = append(c.Environment, pairs(intask.EnvDirs, string(dirs))...)
	}
	if t.cfg.Endpoint != "" { // a test server stands in for all of AWS
		c.Environment = append(c.Environment, pairs(intask.EnvEndpoint, t.cfg.Endpoint)...)
	}
	for i, arn := range t.refs.FilesARNs {
		c.Secrets = append(c.Secrets, types.Secret{Name: aws.String(intask.FilesEnv(i)), ValueFrom: aws.String(arn)})
	}
	return c, nil
}

// agent keeps files fresh, and is where sessions land: ECS Exec wants a root file
// system that can be written to (ECS developer guide, "Using Amazon ECS Exec"). With
// several app containers it is essential in their place, and ends with the last.
func (t *translator) agent() types.ContainerDefinition {
	c := t.own(identity.AgentName, intask.CommandAgent)
	c.Essential = aws.Bool(anchored(&t.spec.Pod.Spec))
	if *c.Essential {
		c.Environment = pairs(intask.EnvWait, strings.Join(t.names(false), ","))
	}
	c.Environment = append(c.Environment, pairs(intask.EnvRefresh, refreshEvery(t.cfg, t.spec.Pod).String())...)
	if t.cfg.Endpoint != "" {
		c.Environment = append(c.Environment, pairs(intask.EnvEndpoint, t.cfg.Endpoint)...)
	}
	if ready, lives := reported(t.cfg, t.set, t.spec); len(lives) > 0 {
		c.Environment = append(c.Environment, pairs(intask.EnvReportQueue, t.cfg.EventQueueURL,
			intask.EnvReportLives, strings.Join(lives, ","))...)
		if len(ready) > 0 {
			c.Environment = append(c.Environment, pairs(intask.EnvReportOf, strings.Join(ready, ","))...)
		}
	}
	c.MountPoints = append(t.runMounts(), t.plan.files...)
	c.StopTimeout = aws.Int32(minStop)
	return c
}

// names are those of the pod's containers, with the init containers first where they
// are wanted too.
func (t *translator) names(inits bool) []string {
	var out []string
	for _, c := range t.spec.Containers {
		if inits || !c.Init {
			out = append(out, c.Container.Name)
		}
	}
	return out
}

// runMounts show the run directories of all containers to one of burstlet's own.
func (t *translator) runMounts() []types.MountPoint {
	var out []types.MountPoint
	for _, name := range t.names(true) {
		out = append(out, types.MountPoint{
			SourceVolume: aws.String(runVolume(name)), ContainerPath: aws.String(intask.RunDir + "/" + name),
		})
	}
	return out
}

// own is a container of burstlet's own image, as root: it writes files of any owner,
// and the user of that image is who burstlet itself runs as.
func (t *translator) own(name, command string) types.ContainerDefinition {
	return types.ContainerDefinition{
		Name: aws.String(name), Image: aws.String(t.cfg.TaskImage), User: aws.String("0:0"),
		EntryPoint: []string{intask.Program}, Command: []string{command}, LogConfiguration: logging(t.cfg, t.set.log),
	}
}

func readOnlyRoot(c *corev1.Container) bool {
	return c.SecurityContext != nil && aws.ToBool(c.SecurityContext.ReadOnlyRootFilesystem)
}

// secure translates the security contexts of a container without a supervisor, its own
// before the pod's.
func secure(def *types.ContainerDefinition, pod *corev1.PodSecurityContext, own *corev1.SecurityContext) {
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	user, group := userAndGroup(pod, own)
	if user != nil {
		u := strconv.FormatInt(*user, 10)
		if group != nil {
			u += ":" + strconv.FormatInt(*group, 10)
		}
		def.User = aws.String(u)
	}
	if caps := own.Capabilities; caps != nil && len(caps.Add)+len(caps.Drop) > 0 {
		def.LinuxParameters = &types.LinuxParameters{Capabilities: &types.KernelCapabilities{
			Add: capabilityNames(caps.Add), Drop: capabilityNames(caps.Drop),
		}}
	}
}

func userAndGroup(pod *corev1.PodSecurityContext, own *corev1.SecurityContext) (user, group *int64) {
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	return first(own.RunAsUser, pod.RunAsUser), first(own.RunAsGroup, pod.RunAsGroup)
}

// userOf is whom a container runs as; nil if the image says.
func userOf(spec *corev1.PodSpec, c *corev1.Container) *int64 {
	user, _ := userAndGroup(spec.SecurityContext, c.SecurityContext)
	return user
}

func capabilityNames(caps []corev1.Capability) []string {
	var out []string
	for _, c := range caps {
		out = append(out, string(c))
	}
	return out
}

// systemControls are a pod's sysctls. Each container gets them all: those of
// net.* count for the task, others for the container.
func systemControls(pod *corev1.PodSecurityContext) []types.SystemControl {
	if pod == nil {
		return nil
	}
	var out []types.SystemControl
	for _, s := range pod.Sysctls {
		out = append(out, types.SystemControl{Namespace: aws.String(sysctlName(s.Name)), Value: aws.String(s.Value)})
	}
	return out
}

// sysctlName is a sysctl with dots: Kubernetes takes slashes too, and then dots
// are part of a name.
func sysctlName(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}

// stopTimeout is the grace between SIGTERM and SIGKILL, within what ECS takes
// (ECS API, ContainerDefinition: stopTimeout). A longer one was refused, or the
// pod lets it be clamped.
func stopTimeout(pod *corev1.PodSpec) int32 {
	return int32(min(max(gracePeriod(pod), minStop), maxStop))
}

func gracePeriod(pod *corev1.PodSpec) int64 {
	if pod.TerminationGracePeriodSeconds != nil {
		return *pod.TerminationGracePeriodSeconds
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

// PullLogins are, by container, the login for its image's registry: the first
// that a task can use, for it has one. The registries of AWS are logged in to with
// the execution role.
func PullLogins(spec backend.LaunchSpec) map[string]backend.Credential {
	out := map[string]backend.Credential{}
	for _, c := range spec.Containers {
		if isECR(c.Container.Image) {
			continue
		}
		i := slices.IndexFunc(c.Credentials, func(l backend.Credential) bool {
			return l.Username != "" && l.Password != ""
		})
		if i >= 0 {
			out[c.Container.Name] = c.Credentials[i]
		}
	}
	return out
}
