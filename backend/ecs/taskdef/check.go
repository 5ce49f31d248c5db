package taskdef

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

type refusal = backend.Refusal

// Limits of a definition (ECS service quotas, and ECS API, ContainerDefinition).
const (
	maxContainers = 10
	minMemoryMiB  = 6
)

// checking is the check of one pod.
type checking struct {
	cfg Config
	pod *corev1.Pod
	set settings
	// onRule, if it is not nil, is called with every field that is set and has a rule.
	onRule func(path string, r rule)
}

// Checker says which fields of a pod Fargate cannot honour, by the rules in
// fields.go. A field that has no rule is refused.
func Checker(cfg Config) backend.CheckFunc {
	return func(pod *corev1.Pod) []backend.Refusal { return check(cfg, pod, nil) }
}

func check(cfg Config, pod *corev1.Pod, onRule func(string, rule)) []refusal {
	set, refused := settingsOf(cfg, pod)
	k := &checking{cfg: cfg, pod: pod, set: set, onRule: onRule}
	spec := &pod.Spec
	out := append(refused, k.apply("spec", reflect.ValueOf(*spec), podRules)...)
	for i := range spec.InitContainers {
		out = append(out, k.container(fmt.Sprintf("spec.initContainers[%d]", i), &spec.InitContainers[i])...)
	}
	for i := range spec.Containers {
		out = append(out, k.container(fmt.Sprintf("spec.containers[%d]", i), &spec.Containers[i])...)
	}
	return append(out, k.size()...)
}

// size says where a pod is too large.
func (k *checking) size() []refusal {
	var out []refusal
	spec := &k.pod.Spec
	if n, own := len(spec.InitContainers)+len(spec.Containers), k.ownContainers(); n+own > maxContainers {
		out = append(out, refusal{Field: "spec.containers", Why: fmt.Sprintf(
			"a Fargate task has at most %d containers, this has %d and %d of burstlet's own: split "+
				"the pod", maxContainers, n, own)})
	}
	exec := k.set.execOf(k.cfg)
	if _, err := fargate.Fit(needOf(spec, exec).Size, k.cfg.Rates.OrPublished(k.cfg.Region), k.set.arch); err != nil {
		why := err.Error() + ": ask for less"
		if exec > 0 {
			why += fmt.Sprintf(
				", or do without ECS Exec, which takes %d MiB of it, by the annotation %sexec", exec*reached(spec), Prefix,
			)
		}
		out = append(out, refusal{Field: "spec.containers[*].resources", Why: why})
	}
	if g := storageOf(spec, k.set.storageGiB); g > fargate.MaxStorageGiB {
		out = append(out, refusal{Field: "spec.containers[*].resources", Why: fmt.Sprintf(
			"%d GiB of ephemeral storage are more than the %d that a Fargate task has: ask "+
				"for less", g, fargate.MaxStorageGiB)})
	}
	return out
}

// ownContainers counts those that burstlet adds: burstlet-init and burstlet-agent.
func (k *checking) ownContainers() int {
	if k.cfg.TaskImage == "" {
		return 0
	}
	return 2
}

func (k *checking) container(path string, c *corev1.Container) []refusal {
	out := k.apply(path, reflect.ValueOf(*c), containerRules)
	if k.cfg.TaskImage == "" {
		out = append(out, userIsSet(path, k.pod.Spec.SecurityContext, c.SecurityContext)...)
	}
	out = append(out, partsFit(path, c)...)
	return append(out, k.wordsFit(path, c)...)
}

// apply goes through the fields of a struct that are set.
func (k *checking) apply(path string, v reflect.Value, rules map[string]rule) []refusal {
	var out []refusal
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		if unset(f) {
			continue
		}
		at := path + "." + name
		r, ok := rules[name]
		if ok && k.onRule != nil {
			k.onRule(at, r)
		}
		switch {
		case !ok:
			out = append(out, refusal{Field: at, Why: "this field is newer than this backend: remove it"})
		case r.who == refused && !isFalse(f):
			out = append(out, refusal{Field: at, Why: r.why})
		case r.who == partly:
			out = append(out, r.check(k, at, f.Interface(), r.why)...)
		}
	}
	return out
}

func unset(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

// isFalse is true for a pointer to false: asking for what is the case anyway.
func isFalse(v reflect.Value) bool {
	return v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Bool && !v.Elem().Bool()
}

func podSecurity(k *checking, path string, value any, _ string) []refusal {
	sc, _ := value.(*corev1.PodSecurityContext)
	return k.apply(path, reflect.ValueOf(*sc), podSecurityRules)
}

func containerSecurity(k *checking, path string, value any, _ string) []refusal {
	sc, _ := value.(*corev1.SecurityContext)
	return k.apply(path, reflect.ValueOf(*sc), securityRules)
}

// nothing is for fields that something else checks.
func nothing(*checking, string, any, string) []refusal { return nil }

// userIsSet wants, where no supervisor gives a container its user, one beside a group
// (ECS API, ContainerDefinition: user takes a group only behind one), and one for
// runAsNonRoot.
func userIsSet(path string, pod *corev1.PodSecurityContext, own *corev1.SecurityContext) []refusal {
	user, group := userAndGroup(pod, own)
	var nonRoot *bool
	if own != nil {
		nonRoot = own.RunAsNonRoot
	}
	if nonRoot == nil && pod != nil {
		nonRoot = pod.RunAsNonRoot
	}
	var out []refusal
	if group != nil && user == nil {
		out = append(out, refusal{
			Field: path + ".securityContext.runAsGroup",
			Why:   "Fargate takes a group only with a user: set runAsUser too, or backend.ecs.taskImage",
		})
	}
	if nonRoot != nil && *nonRoot && (user == nil || *user == 0) {
		out = append(out, refusal{
			Field: path + ".securityContext.runAsNonRoot",
			Why:   "the image's user cannot be verified: set runAsUser to one other than 0, or backend.ecs.taskImage",
		})
	}
	return out
}

// oneOf allows some values of a string.
func oneOf(allowed ...string) func(*checking, string, any, string) []refusal {
	return func(_ *checking, path string, value any, why string) []refusal {
		v := reflect.ValueOf(value)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if slices.Contains(allowed, v.String()) {
			return nil
		}
		return []refusal{{Field: path, Why: why}}
	}
}

func notFalse(_ *checking, path string, value any, why string) []refusal {
	if isFalse(reflect.ValueOf(value)) {
		return []refusal{{Field: path, Why: why}}
	}
	return nil
}

func severalContainers(k *checking, path string, value any, _ string) []refusal {
	if cs, _ := value.([]corev1.Container); len(cs) < 2 || k.cfg.TaskImage != "" {
		return nil
	}
	return []refusal{{Field: path + "[1]", Why: "several app containers need burstlet's own image beside them: " +
		"set backend.ecs.taskImage, or use a pod for each"}}
}

func nameIsFree(_ *checking, path string, value any, why string) []refusal {
	if name, _ := value.(string); strings.HasPrefix(name, identity.OwnPrefix) {
		return []refusal{{Field: path, Why: why}}
	}
	return nil
}

// needsExecutionRole is for logins: the execution role reads them.
func needsExecutionRole(k *checking, path string, _ any, _ string) []refusal {
	if k.set.executionRole != "" {
		return nil
	}
	return []refusal{{Field: path, Why: "logins reach a task by its execution role: set backend.ecs.executionRoleARN"}}
}

// unlessGivenUp refuses a field unless the pod says that it does without.
func unlessGivenUp(field string) func(*checking, string, any, string) []refusal {
	return func(k *checking, path string, value any, why string) []refusal {
		if slices.Contains(k.set.unenforced, field) || isFalse(reflect.ValueOf(value)) {
			return nil
		}
		return []refusal{{Field: path, Why: why}}
	}
}

// needsTaskImage is for what burstlet's own program does in the task.
func needsTaskImage(k *checking, path string, value any, why string) []refusal {
	if k.cfg.TaskImage != "" || isFalse(reflect.ValueOf(value)) {
		return nil
	}
	return []refusal{{Field: path, Why: why}}
}

// unlessSupervised refuses a field without burstlet's own program, unless the pod says
// that it does without.
func unlessSupervised(field string) func(*checking, string, any, string) []refusal {
	return func(k *checking, path string, value any, why string) []refusal {
		if k.cfg.TaskImage != "" {
			return nil
		}
		return unlessGivenUp(field)(k, path, value, why)
	}
}

// dnsFits: without a supervisor the resolver is the VPC's.
func dnsFits(k *checking, path string, value any, why string) []refusal {
	if policy, _ := value.(corev1.DNSPolicy); policy != corev1.DNSNone {
		return nil
	}
	return needsTaskImage(k, path, value, why)
}

// escalation: allowPrivilegeEscalation true is what is so anyway.
func escalation(k *checking, path string, value any, why string) []refusal {
	if k.cfg.TaskImage != "" || !isFalse(reflect.ValueOf(value)) ||
		slices.Contains(k.set.unenforced, "allowPrivilegeEscalation") {
		return nil
	}
	return []refusal{{Field: path, Why: why}}
}

func graceFits(k *checking, path string, value any, why string) []refusal {
	if s, _ := value.(*int64); *s > maxStop && !k.set.clampsGrace {
		return []refusal{{Field: path, Why: why}}
	}
	return nil
}

// sysctlsFit is ECS API, SystemControl: what Fargate lets be set.
func sysctlsFit(_ *checking, path string, value any, why string) []refusal {
	var out []refusal
	sysctls, _ := value.([]corev1.Sysctl)
	for i, s := range sysctls {
		name := sysctlName(s.Name)
		allowed := slices.ContainsFunc([]string{"net.", "kernel.msg", "kernel.shm", "fs.mqueue."},
			func(p string) bool { return strings.HasPrefix(name, p) })
		if !allowed && name != "kernel.sem" {
			out = append(out, refusal{Field: fmt.Sprintf("%s[%d]", path, i), Why: why})
		}
	}
	return out
}

// messageFits wants a log that can be read, where that is the message.
func messageFits(k *checking, path string, value any, why string) []refusal {
	policy, _ := value.(corev1.TerminationMessagePolicy)
	if policy == corev1.TerminationMessageReadFile || k.set.log.driver == driverAWSLogs {
		return nil
	}
	return []refusal{{Field: path, Why: why}}
}

func osIsLinux(_ *checking, path string, value any, why string) []refusal {
	if os, _ := value.(*corev1.PodOS); os.Name != corev1.Linux && os.Name != "" {
		return []refusal{{Field: path, Why: why}}
	}
	return nil
}

func imageFits(_ *checking, path string, value any, why string) []refusal {
	if s, _ := value.(string); len(s) > ecsconfig.MaxImage {
		return []refusal{{Field: path, Why: why}}
	}
	return nil
}

func profileIsDefault(_ *checking, path string, value any, why string) []refusal {
	kind := ""
	switch p := value.(type) {
	case *corev1.SeccompProfile:
		kind = string(p.Type)
	case *corev1.AppArmorProfile:
		kind = string(p.Type)
	}
	if kind == "RuntimeDefault" {
		return nil
	}
	return []refusal{{Field: path, Why: why}}
}

// labelIsDefault takes the one label that asks for nothing beyond what is so where
// SELinux does not tell pods apart: the lowest level alone.
func labelIsDefault(_ *checking, path string, value any, why string) []refusal {
	if o, _ := value.(*corev1.SELinuxOptions); *o == (corev1.SELinuxOptions{Level: "s0"}) {
		return nil
	}
	return []refusal{{Field: path, Why: why}}
}

// hooksFit: without a supervisor the engine refuses what hooks it cannot run, and a
// container's signal is its image's.
func hooksFit(k *checking, path string, value any, why string) []refusal {
	if l, _ := value.(*corev1.Lifecycle); l.StopSignal != nil && k.cfg.TaskImage == "" {
		return []refusal{{Field: path + ".stopSignal", Why: why}}
	}
	return nil
}

// messagePathFits: without a supervisor nobody reads the file, and the default says
// nothing else.
func messagePathFits(k *checking, path string, value any, why string) []refusal {
	if s, _ := value.(string); s == corev1.TerminationMessagePathDefault {
		return nil
	}
	return needsTaskImage(k, path, value, why)
}

// capabilitiesFit: what Fargate has not, nobody can add. Without a supervisor what is
// there already is asked for in vain: ECS takes no other.
func capabilitiesFit(k *checking, path string, value any, why string) []refusal {
	caps, _ := value.(*corev1.Capabilities)
	var out []refusal
	for i, c := range caps.Add {
		there := k.cfg.TaskImage != "" && slices.Contains(defaultCapabilities,
			strings.TrimPrefix(strings.ToUpper(string(c)), "CAP_"))
		if !there && c != capPtrace {
			out = append(out, refusal{Field: fmt.Sprintf("%s.add[%d]", path, i), Why: why})
		}
	}
	return out
}

// partsFit: a link to a part of a volume is made in the container's root file system,
// in the place of nothing else.
func partsFit(path string, c *corev1.Container) []refusal {
	var out []refusal
	for i, m := range c.VolumeMounts {
		if m.SubPath == "" && m.SubPathExpr == "" {
			continue
		}
		field := fmt.Sprintf("%s.volumeMounts[%d].subPath", path, i)
		if m.SubPath == "" {
			field += "Expr"
		}
		above := slices.ContainsFunc(c.VolumeMounts, func(other corev1.VolumeMount) bool {
			return strings.HasPrefix(other.MountPath, strings.TrimSuffix(m.MountPath, "/")+"/")
		})
		switch {
		case readOnlyRoot(c):
			out = append(out, refusal{Field: field, Why: "on Fargate a part of a volume is a link in the " +
				"container's root file system, which is read-only: mount the whole volume, or remove " +
				"readOnlyRootFilesystem"})
		case above:
			out = append(out, refusal{Field: field, Why: "on Fargate nothing can be mounted below a part of a " +
				"volume: mount it elsewhere"})
		}
	}
	return out
}

// portsFit refuses what the address of a task cannot do. Ports stand in no definition: with
// awsvpc a mapping opens nothing, the security groups do, and ECS takes a port in it once, not
// for TCP and UDP.
func portsFit(_ *checking, path string, value any, _ string) []refusal {
	var out []refusal
	ports, _ := value.([]corev1.ContainerPort)
	for i, p := range ports {
		add := func(field, why string) {
			out = append(out, refusal{Field: fmt.Sprintf("%s[%d].%s", path, i, field), Why: why})
		}
		if p.HostPort != 0 && p.HostPort != p.ContainerPort {
			add("hostPort", "on Fargate it must be the containerPort: remove it")
		}
		if p.HostIP != "" {
			add("hostIP", "a Fargate task has one address: remove it")
		}
		if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP && p.Protocol != corev1.ProtocolUDP {
			add("protocol", "Fargate has TCP and UDP: use one of them")
		}
	}
	return out
}

// resourcesFit refuses what Fargate has not, by resource.
func resourcesFit(_ *checking, path string, value any, _ string) []refusal {
	r, _ := value.(corev1.ResourceRequirements)
	out := otherResources(path, r, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage)
	if m, ok := r.Limits[corev1.ResourceMemory]; ok && !m.IsZero() && m.Value() < minMemoryMiB*mib {
		out = append(out, refusal{
			Field: path + ".limits.memory",
			Why:   fmt.Sprintf("ECS wants at least %dMi: raise it", minMemoryMiB),
		})
	}
	return out
}

func podResourcesFit(_ *checking, path string, value any, _ string) []refusal {
	r, _ := value.(*corev1.ResourceRequirements)
	return otherResources(path, *r, corev1.ResourceCPU, corev1.ResourceMemory)
}

// otherResources refuses all but some, and devices.
func otherResources(path string, r corev1.ResourceRequirements, known ...corev1.ResourceName) []refusal {
	var out []refusal
	for _, part := range []struct {
		name string
		list corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for _, name := range slices.Sorted(maps.Keys(part.list)) {
			if !slices.Contains(known, name) {
				out = append(out, refusal{
					Field: path + "." + part.name + "." + string(name),
					Why:   "Fargate has cpu, memory and ephemeral-storage: remove it",
				})
			}
		}
	}
	if len(r.Claims) > 0 {
		out = append(out, refusal{Field: path + ".claims", Why: "Fargate has no devices to claim: remove them"})
	}
	return out
}
