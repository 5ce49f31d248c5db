package cloudformation

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// ways are the values of parameters that make a difference.
func ways() map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, credential := range []string{"PodIdentity", "IRSA", "EC2", "User"} {
		for _, more := range []string{"", "no"} {
			p := map[string]any{"VPC": "vpc-1", "Subnets": []any{"subnet-0a", "subnet-0b"}, "Credential": credential}
			if credential == "IRSA" {
				p["OIDCIssuer"] = "oidc.eks.us-east-1.amazonaws.com/id/EXAMPLE"
			}
			if more == "" {
				p["EphemeralVolumes"], p["StartedBy"] = "yes", "burstlet/0123"
			} else {
				p["Repository"] = ""
			}
			out[credential+more] = p
		}
	}
	return out
}

// Each reference finds what it names, and nothing is declared in vain.
func TestReferences(t *testing.T) {
	used := map[string]bool{}
	var all *template
	for name, parameters := range ways() {
		t.Run(name, func(t *testing.T) {
			f := load(t, parameters)
			f.evaluate()
			for _, c := range f.names("Conditions") {
				f.condition(c)
			}
			for name := range f.used {
				used[name] = true
			}
			all = f
		})
	}
	for _, name := range all.names("Parameters") {
		if !used[name] {
			t.Errorf("nothing uses parameter %s", name)
		}
	}
}

// document is a policy of deploy/aws with an account's values in it.
func document(t *testing.T, file string) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/aws/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	filled := strings.NewReplacer(
		"REGION", "us-east-1", "ACCOUNT", "123456789012", "BUCKET", "bucket-of-files",
	).Replace(string(text))
	if err := json.Unmarshal([]byte(filled), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// without is a policy without a statement.
func without(policy map[string]any, sid string) map[string]any {
	var kept []any
	for _, s := range policy["Statement"].([]any) {
		if s.(map[string]any)["Sid"] != sid {
			kept = append(kept, s)
		}
	}
	return map[string]any{"Version": policy["Version"], "Statement": kept}
}

// inline is the one inline policy of a role.
func inline(role map[string]any) any {
	return role["Policies"].([]any)[0].(map[string]any)["PolicyDocument"]
}

// The template grants what the files grant, statement by statement.
func TestPoliciesAreThoseOfTheFiles(t *testing.T) {
	for name, parameters := range ways() {
		t.Run(name, func(t *testing.T) {
			f := load(t, parameters)
			controller := document(t, "controller-policy.json")
			if parameters["EphemeralVolumes"] != "yes" {
				controller = without(controller, "RoleOfVolumes")
			}
			for _, c := range []struct {
				what      string
				want, got any
			}{
				{"controller", controller, f.resource("Controller")["PolicyDocument"]},
				{"execution role", document(t, "task-execution-role-policy.json"), inline(f.resource("ExecutionRole"))},
				{"task role", document(t, "task-role-policy.json"), inline(f.resource("TaskRole"))},
				{"bucket", document(t, "payload-bucket-policy.json"), f.resource("BucketPolicy")["PolicyDocument"]},
			} {
				if diff := cmp.Diff(c.want, c.got); diff != "" {
					t.Errorf("%s: the file and the template differ:\n%s", c.what, diff)
				}
			}
		})
	}
}

// The rules of the bucket are those of the file, in CloudFormation's words.
func TestLifecycleIsThatOfTheFile(t *testing.T) {
	want := document(t, "payload-bucket-lifecycle.json")["Rules"].([]any)[0].(map[string]any)
	f := load(t, ways()["User"])
	got := f.resource("Bucket")["LifecycleConfiguration"].(map[string]any)["Rules"].([]any)
	if len(got) != 1 {
		t.Fatalf("%d rules", len(got))
	}
	translated, err := json.Marshal(map[string]any{
		"Id": want["ID"], "Status": want["Status"], "Prefix": want["Filter"].(map[string]any)["Prefix"],
		"NoncurrentVersionExpiration":    want["NoncurrentVersionExpiration"],
		"ExpiredObjectDeleteMarker":      want["Expiration"].(map[string]any)["ExpiredObjectDeleteMarker"],
		"AbortIncompleteMultipartUpload": want["AbortIncompleteMultipartUpload"],
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got[0])
	if err != nil {
		t.Fatal(err)
	}
	if !jsonEqual(t, translated, text) {
		t.Errorf("want %s\ngot  %s", translated, text)
	}
}

func jsonEqual(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// size is a policy's as IAM counts: without white space.
func size(t *testing.T, policy any) int {
	t.Helper()
	text, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range string(text) {
		if !unicode.IsSpace(c) {
			n++
		}
	}
	return n
}

// Policies are within IAM's quotas, with the longest names that resources may have ("IAM
// and AWS STS quotas": managed 6,144 characters, inline of a role 10,240).
func TestPolicySizes(t *testing.T) {
	parameters := ways()["PodIdentity"]
	f := load(t, parameters)
	f.ids = map[string]string{}
	for key, id := range ids {
		name := strings.Repeat("n", 128)
		f.ids[key] = strings.NewReplacer("CLUSTER", name, "LOG_GROUP", "/burstlet/"+name, "bucket-of-files", name[:63],
			"_ROLE", name[:64], "QUEUE", name[:80]).Replace(id)
	}
	if n := size(t, f.resource("Controller")["PolicyDocument"]); n > 6144 {
		t.Errorf("the controller's policy has %d characters, a managed policy may have 6,144", n)
	}
	for _, role := range []string{"ExecutionRole", "TaskRole"} {
		if n := size(t, inline(f.resource(role))); n > 10240 {
			t.Errorf("the policy of %s has %d characters, an inline one may have 10,240", role, n)
		}
	}
}

// trust is who may take a role.
func trust(t *testing.T, role map[string]any) string {
	t.Helper()
	policy := role["AssumeRolePolicyDocument"]
	if text, ok := policy.(string); ok {
		if err := json.Unmarshal([]byte(text), &policy); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	text, err := json.Marshal(policy.(map[string]any)["Statement"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTrust(t *testing.T) {
	all := ways()
	tasks := `[{"Action":"sts:AssumeRole","Condition":{"StringEquals":{"aws:SourceAccount":"123456789012"}},"Effect":"Allow","Principal":{"Service":"ecs-tasks.amazonaws.com"}}]`
	irsa := `[{"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{` +
		`"oidc.eks.us-east-1.amazonaws.com/id/EXAMPLE:aud":"sts.amazonaws.com",` +
		`"oidc.eks.us-east-1.amazonaws.com/id/EXAMPLE:sub":"system:serviceaccount:burstlet:burstlet"}},` +
		`"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/EXAMPLE"}}]`
	for _, c := range []struct{ way, role, want string }{
		{"User", "ExecutionRole", tasks},
		{"User", "TaskRole", tasks},
		{"User", "VolumesRole", strings.Replace(tasks, "ecs-tasks", "ecs", 1)},
		{
			"PodIdentity", "ControllerRole",
			`[{"Action":["sts:AssumeRole","sts:TagSession"],"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"}}]`,
		},
		{
			"EC2", "ControllerRole",
			`[{"Action":"sts:AssumeRole","Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"}}]`,
		},
		{"IRSA", "ControllerRole", irsa},
	} {
		if got := trust(t, load(t, all[c.way]).resource(c.role)); got != c.want {
			t.Errorf("%s of %s:\nwant %s\ngot  %s", c.role, c.way, c.want, got)
		}
	}
}

// The rule selects this node's tasks, or all of the cluster where no node is named, and
// may write to the queue.
func TestEvents(t *testing.T) {
	for way, want := range map[string]string{
		"User":   `{"startedBy":["burstlet/0123"]}`,
		"Userno": `{"clusterArn":["arn:aws:ecs:us-east-1:123456789012:cluster/CLUSTER"]}`,
	} {
		f := load(t, ways()[way])
		detail, err := json.Marshal(f.resource("Events")["EventPattern"].(map[string]any)["detail"])
		if err != nil || string(detail) != want {
			t.Errorf("%s: %v, %s", way, err, detail)
		}
		policy := f.resource("QueuePolicy")["PolicyDocument"].(map[string]any)["Statement"].([]any)[0].(map[string]any)
		if policy["Resource"] != ids["Queue.Arn"] ||
			policy["Condition"].(map[string]any)["ArnEquals"].(map[string]any)["aws:SourceArn"] != ids["Events.Arn"] {
			t.Errorf("%s: %v", way, policy)
		}
	}
}

// What the quick start has people write loads, and all of it that is the account's comes
// from outputs of the template.
func TestQuickStart(t *testing.T) {
	text, err := os.ReadFile("../../../docs/quickstart-aws.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	out := regexp.MustCompile(`\$\(out (\w+)\)`)
	given := map[string]string{}
	for _, parameters := range ways() {
		for name, value := range load(t, parameters).outputs() {
			given[name] = value
		}
	}
	for _, use := range out.FindAllStringSubmatch(page, -1) {
		if _, ok := given[use[1]]; !ok {
			t.Errorf("the quick start takes %s from the stack, which has no such output", use[1])
		}
	}
	for _, use := range regexp.MustCompile(
		`--parameter-overrides ([^\n]*(?:\\\n[^\n]*)*)`,
	).FindAllStringSubmatch(page, -1) {
		for _, p := range regexp.MustCompile(`(\w+)=`).FindAllStringSubmatch(use[1], -1) {
			if load(t, ways()["User"]).sections["Parameters"][p[1]] == nil {
				t.Errorf("the quick start sets %s, which is no parameter", p[1])
			}
		}
	}
	values := regexp.MustCompile(`(?s)cat > values.yaml <<END\n(.*?)\nEND\n`).FindStringSubmatch(page)
	if values == nil {
		t.Fatal("the quick start writes no values.yaml")
	}
	fields := out.ReplaceAllStringFunc(values[1], func(use string) string { return given[out.FindStringSubmatch(use)[1]] })
	checkValues(t, values[1], fields)
}

// checkValues loads the configuration of the one node of values, and looks for fields that
// the template makes and the values do not take from it.
func checkValues(t *testing.T, written, filled string) {
	t.Helper()
	var values struct {
		Nodes map[string]map[string]any `json:"nodes"`
	}
	if err := yaml.Unmarshal([]byte(filled), &values); err != nil {
		t.Fatalf("%v in\n%s", err, filled)
	}
	node := values.Nodes["fargate"]
	node["apiVersion"], node["kind"] = config.APIVersion, config.Kind
	node["node"].(map[string]any)["name"] = "fargate"
	text, err := yaml.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/burstlet.yaml"
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{File: file})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if got := c.Backend.ECS; got.PayloadBucket != ids["Bucket"] || got.EventQueueURL != ids["Queue"] ||
		len(got.Subnets) != 2 {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{
		"region", "cluster", "subnets", "securityGroups", "executionRoleARN", "taskRoleARN", "logGroup", "payloadBucket",
		"eventQueueURL",
	} {
		if !regexp.MustCompile(fmt.Sprintf(`\b%s: \[?\$\(out %s\)`, name, name)).MatchString(written) {
			t.Errorf("%s of the quick start is not the template's output of that name", name)
		}
	}
}
