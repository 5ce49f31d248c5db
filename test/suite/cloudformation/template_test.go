package cloudformation

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// noValue is what AWS::NoValue evaluates to: the list item or property is left out.
type noValue struct{}

// template is a template with the values of its parameters.
type template struct {
	t          *testing.T
	parameters map[string]any
	sections   map[string]map[string]*yaml.Node
	// ids are what Ref and GetAtt of resources evaluate to, by "Name" and "Name.Attribute".
	ids map[string]string
	// used are the parameters, conditions and resources that something refers to.
	used map[string]bool
}

// pseudo are CloudFormation's own parameters.
var pseudo = map[string]any{
	"AWS::AccountId": "123456789012", "AWS::Region": "us-east-1", "AWS::Partition": "aws",
	"AWS::URLSuffix": "amazonaws.com",
	"AWS::StackName": "burst", "AWS::NoValue": noValue{},
}

// ids are those of an account, where the policies of deploy/aws have placeholders.
var ids = map[string]string{
	"Cluster": "CLUSTER", "Cluster.Arn": "arn:aws:ecs:us-east-1:123456789012:cluster/CLUSTER",
	"Logs": "LOG_GROUP", "SecurityGroup.GroupId": "sg-0a1b2c3d", "Bucket": "bucket-of-files",
	"Bucket.Arn":         "arn:aws:s3:::bucket-of-files",
	"Queue":              "https://sqs.us-east-1.amazonaws.com/123456789012/QUEUE",
	"Queue.Arn":          "arn:aws:sqs:us-east-1:123456789012:QUEUE",
	"Events.Arn":         "arn:aws:events:us-east-1:123456789012:rule/rule",
	"ExecutionRole.Arn":  "arn:aws:iam::123456789012:role/EXECUTION_ROLE",
	"TaskRole.Arn":       "arn:aws:iam::123456789012:role/TASK_ROLE",
	"VolumesRole.Arn":    "arn:aws:iam::123456789012:role/INFRASTRUCTURE_ROLE",
	"ControllerRole.Arn": "arn:aws:iam::123456789012:role/controller", "ControllerRole": "controller",
	"Controller": "arn:aws:iam::123456789012:policy/controller", "InstanceProfile": "profile", "User": "user",
	"Images.RepositoryUri": "123456789012.dkr.ecr.us-east-1.amazonaws.com/burstlet",
}

const path = "../../../deploy/aws/burstlet.yaml"

// load reads the template; parameters are those that have no default, and others.
func load(t *testing.T, parameters map[string]any) *template {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]yaml.Node
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	out := &template{
		t: t, parameters: parameters, sections: map[string]map[string]*yaml.Node{}, ids: ids, used: map[string]bool{},
	}
	for name, node := range file {
		out.sections[name] = members(&node)
	}
	for name := range parameters {
		if out.sections["Parameters"][name] == nil {
			t.Errorf("the template has no parameter %s", name)
		}
	}
	for name, p := range out.sections["Parameters"] {
		if _, set := parameters[name]; set {
			continue
		}
		def := members(p)["Default"]
		if def == nil {
			t.Fatalf("parameter %s is missing", name)
		}
		parameters[name] = def.Value
	}
	return out
}

// members are a mapping's.
func members(n *yaml.Node) map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			out[n.Content[i].Value] = n.Content[i+1]
		}
	}
	return out
}

// ref is what Ref of a name evaluates to.
func (f *template) ref(name string) any {
	f.used[name] = true
	if v, ok := pseudo[name]; ok {
		return v
	}
	if v, ok := f.parameters[name]; ok {
		return v
	}
	return f.id(name, name)
}

// id is that of a resource, which must be in the template and be made.
func (f *template) id(resource, key string) string {
	f.used[resource] = true
	node := f.sections["Resources"][resource]
	if node == nil {
		f.t.Errorf("nothing is called %s", resource)
		return ""
	}
	if !f.made(node) {
		f.t.Errorf("%s is referred to, and not made", resource)
	}
	v, ok := f.ids[key]
	if !ok {
		f.t.Errorf("%s has no %s that this test knows", resource, key)
	}
	return v
}

// made is true of a resource or output whose condition holds.
func (f *template) made(n *yaml.Node) bool {
	c := members(n)["Condition"]
	return c == nil || f.condition(c.Value)
}

func (f *template) condition(name string) bool {
	f.used[name] = true
	node := f.sections["Conditions"][name]
	if node == nil {
		f.t.Fatalf("there is no condition %s", name)
	}
	return f.value(node).(bool)
}

var variable = regexp.MustCompile(`\$\{([^}]+)\}`)

// value evaluates a node.
func (f *template) value(n *yaml.Node) any {
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
		return f.call(n)
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for name, m := range members(n) {
			if v := f.value(m); v != (noValue{}) {
				out[name] = v
			}
		}
		return out
	case yaml.SequenceNode:
		out := []any{}
		for _, m := range n.Content {
			if v := f.value(m); !isNoValue(v) {
				out = append(out, v)
			}
		}
		return out
	default:
		var v any
		if err := n.Decode(&v); err != nil {
			f.t.Fatalf("line %d: %v", n.Line, err)
		}
		return v
	}
}

func isNoValue(v any) bool { _, ok := v.(noValue); return ok }

// call evaluates one of CloudFormation's intrinsic functions.
func (f *template) call(n *yaml.Node) any {
	switch n.Tag {
	case "!Ref":
		return f.ref(n.Value)
	case "!Condition":
		return f.condition(n.Value)
	case "!GetAtt":
		resource, _, _ := strings.Cut(n.Value, ".")
		return f.id(resource, n.Value)
	case "!Sub":
		return variable.ReplaceAllStringFunc(n.Value, func(v string) string {
			name := v[2 : len(v)-1]
			if resource, _, ok := strings.Cut(name, "."); ok {
				return f.id(resource, name)
			}
			return fmt.Sprint(f.ref(name))
		})
	case "!If":
		if f.condition(n.Content[0].Value) {
			return f.value(n.Content[1])
		}
		return f.value(n.Content[2])
	case "!Equals":
		return f.value(n.Content[0]) == f.value(n.Content[1])
	case "!Not":
		return !f.value(n.Content[0]).(bool)
	case "!Join":
		var texts []string
		for _, v := range f.value(n.Content[1]).([]any) {
			texts = append(texts, v.(string))
		}
		return strings.Join(texts, f.value(n.Content[0]).(string))
	}
	f.t.Fatalf("line %d: %s is no function that this test knows", n.Line, n.Tag)
	return nil
}

// resource are the properties of one that is made.
func (f *template) resource(name string) map[string]any {
	node := f.sections["Resources"][name]
	if node == nil || !f.made(node) {
		f.t.Fatalf("there is no %s", name)
	}
	properties, _ := f.value(members(node)["Properties"]).(map[string]any)
	return properties
}

// outputs are those whose conditions hold.
func (f *template) outputs() map[string]string {
	out := map[string]string{}
	for name, o := range f.sections["Outputs"] {
		if f.made(o) {
			out[name] = f.value(members(o)["Value"]).(string)
		}
	}
	return out
}

// evaluate evaluates all of it, so that each reference is looked at.
func (f *template) evaluate() {
	for name, r := range f.sections["Resources"] {
		if f.made(r) {
			f.resource(name)
		}
	}
	f.outputs()
}

// names are the keys of a section.
func (f *template) names(section string) []string {
	var out []string
	for name := range f.sections[section] {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
