package taskdef

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

// Preview is what a launch would become, told without a call to AWS.
type Preview struct {
	// TaskDefinition and RunTask are the requests as AWS's own tools write them.
	// References to secrets that are not stored yet have the account 000000000000,
	// so the family's name is not the one that a launch gives it.
	TaskDefinition json.RawMessage `json:"taskDefinition"`
	RunTask        json.RawMessage `json:"runTask"`
	// VCPU, MemoryGiB and StorageGiB are what the task has and is billed for.
	VCPU         float64 `json:"vcpu"`
	MemoryGiB    float64 `json:"memoryGiB"`
	StorageGiB   int32   `json:"storageGiB"`
	Architecture string  `json:"architecture"`
	// ExecMiB is what of the memory ECS Exec is given, in all containers together.
	ExecMiB int64 `json:"execMiB,omitempty"`
	// Volume is the one that is made for the pod, in words; empty without one.
	Volume string `json:"volume,omitempty"`
	// Files says where the files of this pod alone are kept, and what that costs; empty
	// without any.
	Files string `json:"files,omitempty"`
	// CapacityTypes are tried in this order.
	CapacityTypes []string `json:"capacityTypes"`
	// OnDemand and Spot are dollars an hour; Prices says of what they are made.
	OnDemand float64 `json:"dollarsPerHourOnDemand"`
	Spot     float64 `json:"dollarsPerHourSpot"`
	Prices   string  `json:"prices"`
}

// Explain says what a launch would become with a configuration. Errors:
// Unsupported and Invalid, as a launch has them.
func Explain(cfg Config, spec backend.LaunchSpec) (Preview, error) {
	set, err := settingsFor(cfg, spec.Pod)
	if err != nil {
		return Preview{}, err
	}
	def, run, err := Translate(cfg, spec, placeholders(cfg, spec), unknownImages(spec))
	if err != nil {
		return Preview{}, err
	}
	rates := cfg.Rates.OrPublished(cfg.Region)
	exec := set.execOf(cfg)
	size, err := fargate.Fit(needOf(&spec.Pod.Spec, exec).Size, rates, set.arch)
	if err != nil {
		return Preview{}, backend.Classed(backend.ErrUnsupported, err)
	}
	out := Preview{
		VCPU: float64(size.CPU) / 1024, MemoryGiB: float64(size.MemoryMiB) / 1024,
		StorageGiB:   max(storageOf(&spec.Pod.Spec, set.storageGiB), fargate.FreeStorageGiB),
		Architecture: set.arch, CapacityTypes: set.capacity,
		ExecMiB: exec * reached(&spec.Pod.Spec), Prices: pricesNote(cfg), Files: filesNote(cfg, spec),
	}
	out.OnDemand = rates.PerHour(size, set.arch, out.StorageGiB)
	out.Spot = out.OnDemand * rates.SpotFactor
	_, made, err := madeVolume(set.ebs, spec)
	if err != nil {
		return Preview{}, err
	}
	if made != nil {
		out.Volume = made.String()
		out.OnDemand += rates.DiskPerHour(made)
		out.Spot += rates.DiskPerHour(made)
	}
	if out.TaskDefinition, err = asWritten(def); err != nil {
		return Preview{}, err
	}
	if out.RunTask, err = asWritten(run); err != nil {
		return Preview{}, err
	}
	return out, nil
}

// pricesNote says where the prices are from.
func pricesNote(c Config) string {
	note := "without logs, public addresses and traffic; Spot moves"
	rates := c.Rates.OrPublished(c.Region)
	if rates.Of == "" {
		return "prices of backend.ecs.prices, " + note
	}
	note = fmt.Sprintf("prices of %s, %s: at best %.0f%% of the price on demand", rates.List(), note, 100*rates.SpotFactor)
	if rates.Foreign(c.Region) {
		note += "; for those of " + c.Region + " set backend.ecs.prices"
	}
	return note
}

// asWritten is a request as AWS's own tools write it: with names that begin in
// lower case, and nothing that is not set.
func asWritten(request any) (json.RawMessage, error) {
	text, err := normal(request)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("decode %T: %w", request, err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(lowered(tree)); err != nil {
		return nil, fmt.Errorf("encode %T: %w", request, err)
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

func lowered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, x := range v {
			first, rest := name[:1], name[1:]
			out[strings.Map(unicode.ToLower, first)+rest] = lowered(x)
		}
		return out
	case []any:
		for i := range v {
			v[i] = lowered(v[i])
		}
	}
	return v
}

// Taken says, by path, what becomes of the fields of a pod that are set, by the
// rules in fields.go. Refused ones are among them: see Check.
func Taken(cfg Config, pod *corev1.Pod) map[string]string {
	out := map[string]string{}
	check(cfg, pod, func(path string, r rule) { out[path] = r.how })
	for _, a := range Annotations() {
		if _, ok := pod.Annotations[Prefix+a.Name]; ok {
			out["metadata.annotations["+Prefix+a.Name+"]"] = a.Meaning
		}
	}
	return out
}

// FieldRule says what becomes of a field where it is taken, by its path as in
// "containers[].image" or "securityContext.fsGroup"; empty for one that is refused.
func FieldRule(path string) string {
	rules := podRules
	name := path
	for prefix, of := range map[string]map[string]rule{
		"securityContext.": podSecurityRules, "containers[].": containerRules, "initContainers[].": containerRules,
		"containers[].securityContext.": securityRules,
	} {
		rest, ok := strings.CutPrefix(path, prefix)
		if ok && len(rest) < len(name) {
			rules, name = of, rest
		}
	}
	return rules[strings.TrimSuffix(name, "[]")].how
}
