package taskdef

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/intask"
)

// hostnameEnv is what a runtime sets to the host name, which Fargate chooses.
const hostnameEnv = "HOSTNAME"

// environment are a container's variables by where they go. A definition can be
// read by whoever may describe it and is shared by all pods of one template, so
// neither what is secret nor what differs between them stands in it.
type environment struct {
	// shared stand in the definition, own in the overrides of one task.
	shared, own []types.KeyValuePair
	// secret are the names of those whose values stand in the shape's secret.
	secret []string
}

// environmentOf sorts the variables of a container. Errors: Unsupported for one
// that is both secret and the pod's own, Invalid for one that nobody resolved.
func environmentOf(spec backend.ContainerSpec) (environment, error) {
	var out environment
	for _, v := range spec.Container.Env {
		if strings.HasPrefix(v.Name, intask.EnvPrefix) {
			return environment{}, backend.Errorf(backend.ErrUnsupported, "container %s: variable %s: it%s",
				spec.Container.Name, v.Name, whyOurs)
		}
		origin, err := originOf(spec, v.Name)
		if err != nil {
			return environment{}, err
		}
		pair := types.KeyValuePair{Name: aws.String(v.Name), Value: aws.String(v.Value)}
		switch {
		case origin.Secret() && origin.OfPod():
			return environment{}, backend.Errorf(backend.ErrUnsupported, "container %s: variable %s: %s",
				spec.Container.Name, v.Name, whyMixed)
		case origin.Secret():
			out.secret = append(out.secret, v.Name)
		case origin.OfPod():
			out.own = append(out.own, pair)
		default:
			out.shared = append(out.shared, pair)
		}
	}
	return out, nil
}

// originOf is what a variable was made of. Where nobody says, the variables of a
// container that has nothing but literals are shared.
func originOf(spec backend.ContainerSpec, name string) (backend.Origin, error) {
	if origin, ok := spec.Origins.Env[name]; ok {
		return origin, nil
	}
	if c := containerIn(&spec.Pod.Spec, spec.Container.Name); c != nil && literal(c) {
		return backend.OriginShared, nil
	}
	return 0, backend.Errorf(backend.ErrInvalid, "container %s: it is not known what variable %s was made of",
		spec.Container.Name, name)
}

// literal is true for a container whose environment refers to nothing.
func literal(c *corev1.Container) bool {
	return len(c.EnvFrom) == 0 && !slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.ValueFrom != nil })
}

func containerIn(spec *corev1.PodSpec, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// hostnameOf is the host name that the pod would have (kubelet:
// GeneratePodHostNameAndDomain).
func hostnameOf(pod *corev1.Pod) string {
	if pod.Spec.Hostname != "" {
		return pod.Spec.Hostname
	}
	const longest = 63
	return strings.TrimRight(pod.Name[:min(len(pod.Name), longest)], "-.")
}

// SecretEnv are the values that stand in the secret of the pod's shape, by the keys
// that definitions name.
func SecretEnv(spec backend.LaunchSpec) map[string]string {
	out := map[string]string{}
	for _, c := range spec.Containers {
		for _, v := range c.Container.Env {
			if origin := c.Origins.Env[v.Name]; origin.Secret() && !origin.OfPod() {
				out[envKey(c.Container.Name, v.Name)] = v.Value
			}
		}
	}
	return out
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// envKey is the key of a variable in the shape's secret. A reference to it is cut
// at colons (ECS developer guide, "Secrets Manager secrets": JSON keys), which
// names of variables may have.
func envKey(container, name string) string {
	if plainName.MatchString(name) {
		return container + "." + name
	}
	return container + ".x-" + hex.EncodeToString([]byte(name))
}

// secretsOf are the references of a definition to the shape's secret.
func secretsOf(container string, names []string, arn string) []types.Secret {
	var out []types.Secret
	for _, name := range names {
		out = append(out, types.Secret{
			Name: aws.String(name), ValueFrom: aws.String(arn + ":" + envKey(container, name) + "::"),
		})
	}
	return out
}

// words are what a container runs.
type words struct {
	// entry and command stand in the definition.
	entry, command []string
	// own replaces command in one task; nil where all pods run the same.
	own []string
}

// wordsOf splits what a container runs. Overrides hold a command and no entry
// point (ECS API, ContainerOverride), so what differs between pods moves there.
// Errors: Unsupported for what can stand nowhere.
func wordsOf(spec backend.ContainerSpec) (words, error) {
	c := &spec.Container
	at := "container " + c.Name + ": "
	if slices.ContainsFunc(slices.Concat(spec.Origins.Command, spec.Origins.Args), backend.Origin.Secret) {
		return words{}, backend.Errorf(backend.ErrUnsupported, "%s%s", at, whySecretWord)
	}
	ofPod := func(origins []backend.Origin) bool { return slices.ContainsFunc(origins, backend.Origin.OfPod) }
	switch {
	case ofPod(spec.Origins.Command) && spec.Origins.Command[0].OfPod():
		return words{}, backend.Errorf(backend.ErrUnsupported, "%s%s", at, whyOwnProgram)
	case ofPod(spec.Origins.Command):
		return words{entry: c.Command[:1], own: slices.Concat(c.Command[1:], c.Args)}, nil
	case ofPod(spec.Origins.Args):
		return words{entry: c.Command, own: c.Args}, nil
	}
	return words{entry: c.Command, command: c.Args}, nil
}

// supervisedWords are those of a container with a supervisor. Secrets stand in no
// words: nothing replaces them in the task.
func supervisedWords(spec backend.ContainerSpec, images Images) (words, error) {
	origins := slices.Concat(spec.Origins.Command, spec.Origins.Args)
	if slices.ContainsFunc(origins, backend.Origin.Secret) {
		return words{}, backend.Errorf(backend.ErrUnsupported, "container %s: %s", spec.Container.Name, whySecretWord)
	}
	argv := Argv(spec, images)
	if len(argv) == 0 {
		return words{}, backend.Errorf(backend.ErrInvalid, "container %s: %w", spec.Container.Name, ErrNoCommand)
	}
	out := words{entry: []string{intask.Supervisor}, command: slices.Concat(superviseCommand, argv)}
	if slices.ContainsFunc(origins, backend.Origin.OfPod) {
		// What stands in the definition is of all pods: of these, the first word.
		out.command, out.own = slices.Concat(superviseCommand, argv[:1]), out.command
		if len(spec.Origins.Command) > 0 && spec.Origins.Command[0].OfPod() {
			out.command = superviseCommand
		}
	}
	return out, nil
}

// hostnameVariable is how a container is told its host name: of its supervisor, which
// passes it on, or else directly.
func hostnameVariable(cfg Config, spec backend.ContainerSpec) []types.KeyValuePair {
	if cfg.TaskImage != "" {
		return pairs(intask.EnvHostname, fqdnOf(cfg, spec.Pod))
	}
	if slices.ContainsFunc(spec.Container.Env, func(v corev1.EnvVar) bool { return v.Name == hostnameEnv }) {
		return nil
	}
	return pairs(hostnameEnv, hostnameOf(spec.Pod))
}

// Why variables and words are refused.
const (
	whyMixed = "a value made of a Secret and of what differs between pods can stand neither in the pod's " +
		"overrides nor in a secret that pods share: use two variables"
	whySecretWord = "a Secret's value in command or args would stand in the clear in the task: let the program " +
		"read the variable"
	whyOwnProgram = "without burstlet's own image the program itself may not differ between pods: put the " +
		"variable into args, or set backend.ecs.taskImage"
	whyAddressEnv = "the address of a Fargate task is not known before it runs, and is put in by burstlet's own " +
		"program: set backend.ecs.taskImage, or find it inside the container, from ECS_CONTAINER_METADATA_URI_V4"
	whyFileEnv    = "variables from files of a volume are not possible on Fargate: use a ConfigMap or a Secret"
	whyUnknownEnv = "this source is newer than this backend: write the value into the pod"
	whyOurs       = " is burstlet's own: use another name"
	whySecretRole = "values of Secrets reach a task by its execution role: set backend.ecs.executionRoleARN"
)

// envValues takes all but what is known only in the task.
func envValues(k *checking, path string, value any, _ string) []refusal {
	var out []refusal
	env, _ := value.([]corev1.EnvVar)
	known := map[string]backend.Origin{}
	for i, e := range env {
		at := fmt.Sprintf("%s[%d]", path, i)
		if strings.HasPrefix(e.Name, intask.EnvPrefix) {
			out = append(out, refusal{Field: at + ".name", Why: "what begins with " + intask.EnvPrefix + whyOurs})
		}
		if e.ValueFrom != nil {
			field, why := k.valueSource(e.ValueFrom)
			if why != "" {
				out = append(out, refusal{Field: at + ".valueFrom" + field, Why: why})
			}
		}
		known[e.Name] = k.originBefore(e, known)
		if o := known[e.Name]; o.Secret() && o.OfPod() {
			out = append(out, refusal{Field: at + ".value", Why: whyMixed})
		}
	}
	return out
}

// originBefore is what a variable will be made of, as far as the pod alone tells.
func (k *checking) originBefore(e corev1.EnvVar, known map[string]backend.Origin) backend.Origin {
	if e.ValueFrom == nil {
		return originOfText(e.Value, known)
	}
	switch from := e.ValueFrom; {
	case from.SecretKeyRef != nil:
		return backend.OriginSecret
	case from.FieldRef != nil && k.cfg.TaskImage != "" && isAddress(from.FieldRef.FieldPath):
		return backend.OriginShared // put in late
	case from.FieldRef != nil && from.FieldRef.FieldPath != "metadata.namespace" &&
		from.FieldRef.FieldPath != "spec.serviceAccountName":
		return backend.OriginPod
	}
	return backend.OriginShared
}

// reference is $(NAME), or $$ that stands for a dollar.
var reference = regexp.MustCompile(`\$\$|\$\(([^)]*)\)`)

func originOfText(s string, known map[string]backend.Origin) backend.Origin {
	var origin backend.Origin
	for _, match := range reference.FindAllStringSubmatch(s, -1) {
		origin |= known[match[1]]
	}
	return origin
}

// valueSource says why a source is refused, if it is.
func (k *checking) valueSource(from *corev1.EnvVarSource) (field, why string) {
	switch {
	case from.SecretKeyRef != nil && k.set.executionRole == "":
		return ".secretKeyRef", whySecretRole
	case from.FieldRef != nil && isAddress(from.FieldRef.FieldPath) && k.cfg.TaskImage == "":
		return ".fieldRef", whyAddressEnv
	case from.FileKeyRef != nil:
		return ".fileKeyRef", whyFileEnv
	case from.SecretKeyRef == nil && from.ConfigMapKeyRef == nil && from.FieldRef == nil &&
		from.ResourceFieldRef == nil:
		return "", whyUnknownEnv
	}
	return "", ""
}

func isAddress(path string) bool {
	return strings.HasPrefix(path, "status.podIP") || strings.HasPrefix(path, "status.hostIP")
}

// envSources takes ConfigMaps and Secrets.
func envSources(k *checking, path string, value any, _ string) []refusal {
	var out []refusal
	sources, _ := value.([]corev1.EnvFromSource)
	for i, s := range sources {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case s.SecretRef != nil && k.set.executionRole == "":
			out = append(out, refusal{Field: at + ".secretRef", Why: whySecretRole})
		case s.SecretRef == nil && s.ConfigMapRef == nil:
			out = append(out, refusal{Field: at, Why: whyUnknownEnv})
		}
	}
	return out
}

// wordsFit refuses what wordsOf would, as far as the pod alone tells.
func (k *checking) wordsFit(path string, c *corev1.Container) []refusal {
	known := map[string]backend.Origin{}
	for _, e := range c.Env {
		known[e.Name] = k.originBefore(e, known)
	}
	var out []refusal
	for _, list := range []struct {
		name  string
		words []string
	}{{"command", c.Command}, {"args", c.Args}} {
		for i, word := range list.words {
			origin := originOfText(word, known)
			at := fmt.Sprintf("%s.%s[%d]", path, list.name, i)
			switch {
			case origin.Secret():
				out = append(out, refusal{Field: at, Why: whySecretWord})
			case origin.OfPod() && list.name == "command" && i == 0 && k.cfg.TaskImage == "":
				out = append(out, refusal{Field: at, Why: whyOwnProgram})
			}
		}
	}
	return out
}
