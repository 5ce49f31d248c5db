package differential

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// shown is what is compared of a pod: values by the path of their field.
type shown map[string]string

// must differ: names of nodes and namespaces, and what is counted or measured.
var differ = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(theirs + `|` + ours), "NODE"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "ID"},
	{regexp.MustCompile(`\bkube-api-access-[a-z0-9]{5}\b`), "TOKEN"},
	{regexp.MustCompile(`\[::1\]:\d{4,5}\b`), "ADDRESS"},
	{regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+:\d{5}\b`), "ADDRESS"},
	{regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`), "IP"},
	{
		regexp.MustCompile(`^(Successfully pulled .* in )\S+ \(\S+ including waiting\)`), "${1}TIME (TIME including waiting)",
	},
}

// times are fields of which only their presence counts.
var times = []string{"lastTransitionTime", "lastProbeTime", "startTime", "startedAt", "finishedAt"}

func normal(s string) string {
	for _, d := range differ {
		s = d.is.ReplaceAllString(s, d.as)
	}
	return s
}

// showPod is all that the API shows of a pod.
func showPod(pod *corev1.Pod, events []*corev1.Event) (shown, error) {
	data, err := json.Marshal(pod.Status)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	var status any
	if err := json.Unmarshal(data, &status); err != nil {
		return nil, fmt.Errorf("read status: %w", err)
	}
	s := shown{}
	s.add("status", status)
	s.events(events)
	return s, nil
}

// add adds what is below a path.
func (s shown) add(path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			s[path] = "{}"
		}
		for key, part := range v {
			if slices.Contains(times, key) && part != nil {
				part = "TIME"
			}
			s.add(path+"."+key, part)
		}
	case []any:
		for i, part := range v {
			s.add(fmt.Sprintf("%s[%s]", path, keyOf(part, i)), part)
		}
	case nil:
	default:
		s[path] = normal(fmt.Sprint(v))
	}
}

// keyOf names an element of a list: by its name or type, where it has one.
func keyOf(element any, i int) string {
	fields, is := element.(map[string]any)
	if !is {
		return fmt.Sprint(i)
	}
	for _, key := range []string{"name", "type", "mountPath"} {
		if name, is := fields[key].(string); is {
			return normal(name)
		}
	}
	return fmt.Sprint(i)
}

// ordered are the reasons of Events whose order is compared.
var ordered = []string{"Created", "Started", "Killing"}

// events adds each Event that is not of the same words as one before, and the order of
// the containers' starts and ends.
func (s shown) events(events []*corev1.Event) {
	var order, sources []string
	for _, e := range events {
		container := e.InvolvedObject.FieldPath
		s[fmt.Sprintf("event %s %s %s", e.Type, e.Reason, container)] += ""
		path := fmt.Sprintf("event %s %s %s", e.Type, e.Reason, container)
		messages := strings.Split(s[path], " & ")
		if message := normal(e.Message); !slices.Contains(messages, message) {
			messages = append(messages, message)
			sort.Strings(messages)
			s[path] = strings.TrimPrefix(strings.Join(messages, " & "), " & ")
		}
		if step := e.Reason + " " + container; slices.Contains(ordered, e.Reason) && !slices.Contains(order, step) {
			order = append(order, step)
		}
		if source := e.Source.Component; !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	sort.Strings(sources)
	s["order"], s["sources"] = strings.Join(order, ", "), strings.Join(sources, ", ")
}
