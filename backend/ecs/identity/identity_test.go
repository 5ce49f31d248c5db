package identity_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"
	ktypes "k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/backend/ecs/identity"
)

const arn = "arn:aws:ecs:eu-west-1:123456789012:task/burst/0123456789abcdef"

// TestNamesStay: another version finds by these names alone what an earlier one made, and a
// client token keeps a launch from being made twice. They are those of RFC 4648's base32 of
// SHA-256, as other programs make them, and never change.
func TestNamesStay(t *testing.T) {
	const node = "0b5c/edge-1"
	for what, tt := range map[string]struct{ got, want string }{
		"node key":            {identity.NodeKey(node), "ayzjezvlqgk6x6du"},
		"family prefix":       {identity.FamilyPrefix(node), "burstlet-ayzjezvlqgk6x6du-"},
		"started by":          {identity.StartedBy(node), "burstlet/ayzjezvlqgk6x6duvbpduib5pk/0b5c/edge-1"},
		"token":               {identity.ClientToken("u1", 0, 0), "v4yaqe3ww7vi6a6krjjkdswnmaxdq3patw7l3t3hnezfmgcepinq"},
		"token, next attempt": {identity.ClientToken("u1", 1, 0), "hw2omdpazgkods5ayfjb6nk7aiovf4kamwn5fpkk3ljrskp5t23a"},
		"token, next try":     {identity.ClientToken("u1", 0, 1), "sd7cumpkvzjtjvilgvrjxvdn5jzulqkdlzhfq5m3wwa5myfcrsmq"},
		"log stream":          {identity.LogStream("app", arn), "burstlet/app/0123456789abcdef"},
		"family":              {identity.FamilyOf("arn:aws:ecs:eu-west-1:1:task-definition/burstlet-a-b:7"), "burstlet-a-b"},
		"family, bare":        {identity.FamilyOf("burstlet-a-b"), "burstlet-a-b"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", what, tt.got, tt.want)
		}
	}
}

// TestTokensDiffer: no two launches of different pods, attempts or tries share a token, of
// which ECS takes 64 characters.
func TestTokensDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, uid := range []ktypes.UID{"u", "u1", "1", ""} {
		for attempt := range 12 {
			for try := range 12 {
				token := identity.ClientToken(uid, attempt, try)
				if seen[token] || len(token) > 64 {
					t.Errorf("uid %q, attempt %d, try %d: %q is not its own, or too long", uid, attempt, try, token)
				}
				seen[token] = true
			}
		}
	}
}

// TestStartedBy: what a node is called fits ECS, and nodes that look alike there differ.
func TestStartedBy(t *testing.T) {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-/_"
	long := strings.Repeat("n", 200)
	seen := map[string]string{}
	for _, node := range []string{"n", "a.b", "a_b", "a b", "ä", "a/b", long, long + "2", ""} {
		got := identity.StartedBy(node)
		if other, taken := seen[got]; taken {
			t.Errorf("%q and %q are both %q", node, other, got)
		}
		seen[got] = node
		if strings.Trim(got, allowed) != "" || len(got) > 128 || !strings.HasPrefix(got, identity.StartedByRoot) {
			t.Errorf("%q: %q does not fit", node, got)
		}
	}
}

// TestTagValue: what ECS refuses in a tag is replaced, and what is too long cut.
func TestTagValue(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "web-0": "web-0", "a b+c=d.e:f/g@h_i": "a b+c=d.e:f/g@h_i", "a,b;c%d": "a_b_c_d", "größe\n": "gr__e_",
		strings.Repeat("x", 300): strings.Repeat("x", 256),
	} {
		if got := identity.TagValue(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func override(name, value string) *types.TaskOverride {
	return &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{
		{Name: aws.String("other")},
		{Environment: []types.KeyValuePair{{Name: aws.String("X")}, {Name: aws.String(name), Value: aws.String(value)}}},
	}}
}

// TestRead: a task says whom it is for, as it was launched; one that does not is nobody's,
// and is never taken for a pod.
func TestRead(t *testing.T) {
	whole := identity.Task{
		Node: "n", UID: "u", Namespace: "ns", Name: "p", Attempt: 2, Files: "f", NoExec: true, Grace: 90,
		Disk: &fargate.Disk{},
		Containers: []identity.Container{
			{Name: "i", Init: true, Hash: "1", Attempt: 3},
			{Name: "s", Init: true, Sidecar: true, Hash: "2"},
			{Name: "a", Hash: "3", Fallback: true, Supervised: true},
		},
	}
	text, err := whole.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := identity.Read(types.Task{Overrides: override(identity.Env, text)})
	if diff := cmp.Diff(whole, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for what, tt := range map[string]struct {
		overrides *types.TaskOverride
		want      string
	}{
		"no overrides":  {nil, "task has no overrides"},
		"none of ours":  {override("OTHER", text), "task has no BURSTLET_POD"},
		"another's":     {override(identity.Env, "web"), "decode identity"},
		"a wrong type":  {override(identity.Env, `{"uid":1}`), "decode identity"},
		"no pod":        {override(identity.Env, `{"c":[{"n":"a"}]}`), "identity is incomplete"},
		"no containers": {override(identity.Env, `{"uid":"u"}`), "identity is incomplete"},
	} {
		if _, err := identity.Read(types.Task{Overrides: tt.overrides}); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", what, err, tt.want)
		}
	}
}

// TestEncodedIsSmall: ECS takes 8,192 characters of overrides in all, so what does not hold
// is left out, and the words are short. Tasks that run were written with these: they stay.
func TestEncodedIsSmall(t *testing.T) {
	for _, tt := range []struct {
		task identity.Task
		want string
	}{
		{
			identity.Task{
				Node: "n", UID: "u", Namespace: "ns", Name: "p", Containers: []identity.Container{{Name: "a", Hash: "h"}},
			},
			`{"node":"n","uid":"u","ns":"ns","name":"p","attempt":0,"c":[{"n":"a","h":"h"}]}`,
		},
		{
			identity.Task{UID: "u", Attempt: 1, Files: "f", NoExec: true, Grace: 90, Containers: []identity.Container{
				{Name: "a", Init: true, Sidecar: true, Attempt: 2, Hash: "h", Fallback: true, Supervised: true},
			}},
			`{"node":"","uid":"u","ns":"","name":"","attempt":1,"c":[{"n":"a","i":true,"s":true,"a":2,"h":"h","l":true,"v":true}],"f":"f","x":true,"g":90}`,
		},
	} {
		if got, err := tt.task.Encode(); got != tt.want || err != nil {
			t.Errorf("%s, %v; want %s", got, err, tt.want)
		}
	}
}

// TestRefAndTags: the attempt that a task is for, and what people see of it.
func TestRefAndTags(t *testing.T) {
	task := identity.Task{Node: "n,1", UID: "u", Namespace: "ns", Name: "p", Attempt: 2}
	ref := task.Ref(arn)
	if want := (backend.Ref{UID: "u", Namespace: "ns", Name: "p", Attempt: 2, ID: arn}); ref != want {
		t.Errorf("%+v, want %+v", ref, want)
	}
	if key, want := identity.KeyOf(ref), (identity.Key{UID: "u", Attempt: 2}); key != want {
		t.Errorf("%+v, want %+v", key, want)
	}
	tags := map[string]string{}
	for _, tag := range task.Tags() {
		tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	want := map[string]string{"burstlet/node": "n_1", "burstlet/namespace": "ns", "burstlet/pod": "p", "burstlet/uid": "u"}
	if diff := cmp.Diff(want, tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}
