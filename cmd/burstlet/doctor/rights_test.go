package doctor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	k8stesting "k8s.io/client-go/testing"
)

// rbacFile are the objects of a file in deploy/rbac.
func rbacFile(t *testing.T, name string) []runtime.Object {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "rbac", name))
	if err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var out []runtime.Object
	for {
		doc, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := strict.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, object)
	}
}

// roleRules are the rules of rights, those of all namespaces before those of one.
func roleRules(rights []right) (cluster []rbacv1.PolicyRule, byNamespace map[string][]rbacv1.PolicyRule) {
	byNamespace = map[string][]rbacv1.PolicyRule{}
	for _, r := range rights {
		rule := rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: r.resources, Verbs: r.verbs}
		if r.namespace == "" {
			cluster = append(cluster, rule)
		} else {
			byNamespace[r.namespace] = append(byNamespace[r.namespace], rule)
		}
	}
	return cluster, byNamespace
}

// done are the rules of what is done as a node, as rights to do it; without those that ask
// who one is and what one may do.
func done(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, rule := range rules {
		if strings.HasPrefix(rule.Resources[0], "selfsubject") || rule.Verbs[0] == "impersonate:arbitrary-node" {
			continue
		}
		for i, verb := range rule.Verbs {
			rule.Verbs[i] = strings.TrimPrefix(verb, "impersonate-on:arbitrary-node:")
		}
		out = append(out, rule)
	}
	return out
}

// What doctor asks for is what the manifests grant, rule by rule.
func TestRightsAreThoseOfTheManifests(t *testing.T) {
	cluster, byNamespace := roleRules(nodeRights())
	for _, object := range rbacFile(t, "constrained-impersonation.yaml") {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			if d := cmp.Diff(done(o.Rules), cluster); d != "" {
				t.Errorf("ClusterRole %s (-file +table):\n%s", o.Name, d)
			}
		case *rbacv1.Role:
			if d := cmp.Diff(done(o.Rules), byNamespace[o.Namespace]); d != "" {
				t.Errorf("Role %s (-file +table):\n%s", o.Name, d)
			}
			delete(byNamespace, o.Namespace)
		}
	}
	if len(byNamespace) > 0 {
		t.Errorf("no Role grants %v", byNamespace)
	}
	for _, object := range rbacFile(t, "serviceaccount.yaml") {
		if o, ok := object.(*rbacv1.Role); ok {
			_, election := roleRules([]right{electionRight(o.Namespace)})
			if d := cmp.Diff(o.Rules, election[o.Namespace]); d != "" {
				t.Errorf("Role %s (-file +table):\n%s", o.Name, d)
			}
		}
	}
	for _, r := range nodeRights() {
		if r.why == "" {
			t.Errorf("nothing says what does not work without %v", r.resources)
		}
	}
}

// reviewer answers questions for rights; denied are "verb resource" or "resource".
func reviewer(denied ...string) *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor(
		"create",
		"selfsubjectaccessreviews",
		func(action k8stesting.Action) (bool, runtime.Object, error) {
			review := action.(k8stesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
			a := review.Spec.ResourceAttributes
			resource := strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")
			review.Status.Allowed = true
			for _, d := range denied {
				if d == resource || d == a.Verb+" "+resource {
					review.Status.Allowed = false
				}
			}
			return true, review, nil
		},
	)
	return client
}

func TestDoctorNamesEachMissingRight(t *testing.T) {
	for name, tc := range map[string]struct {
		denied []string
		want   []string
	}{
		"none": {nil, []string{"ok rights bob has all 38 that were asked for"}},
		"some": {
			[]string{"delete pods", "watch pods", "nodes/status", "clustertrustbundles", "leases"},
			[]string{
				"FAIL rights bob may not patch nodes/status: the node does not become ready: DO",
				"FAIL rights bob may not watch, delete pods: pods are not seen, or never go away: DO",
				"warn rights bob may not list clustertrustbundles of certificates.k8s.io: ",
				"FAIL rights bob may not get, create, update leases of coordination.k8s.io in namespace kube-node-lease: the " +
					"node is taken for dead: DO",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := rightFindings(t.Context(), reviewer(tc.denied...), "rights", "bob", nodeRights(), "n", false, "DO")
			if len(found) != len(tc.want) {
				t.Errorf("%d findings: %v", len(found), found)
			}
			for i := range min(len(found), len(tc.want)) {
				wantFinding(t, found[i], tc.want[i])
			}
		})
	}
}

func TestDoctorTellsWhenRightsCannotBeAsked(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("it is down")
	})
	found := rightFindings(t.Context(), client, "rights", "bob", bootstrapRights(), "", false, "DO")
	if len(found) != 1 ||
		!strings.HasPrefix(verdictText(found[0]), "FAIL rights ask the API server for rights: it is down") {
		t.Errorf("%v", found)
	}
}

// A node's own credential is asked for what the Node authorizer may grant: objects of
// the node, selected by its name.
func TestDoctorAsksForANodesRightsAsItsAuthorizerGrantsThem(t *testing.T) {
	for _, r := range nodeRights() {
		for _, q := range r.questions("n", true) {
			a := q.attributes
			switch {
			case r.scope == referenced, r.scope == unasked:
				t.Errorf("%s %s is asked for", q.verb, q.resource)
			case r.scope == ownObject && q.verb != "create" && a.Name != "n":
				t.Errorf("%s %s of %q", q.verb, q.resource, a.Name)
			case q.resource == "pods" && (q.verb == "list" || q.verb == "watch") &&
				(a.FieldSelector == nil || a.FieldSelector.Requirements[0].Key != "spec.nodeName"):
				t.Errorf("%s pods of all nodes", q.verb)
			}
		}
	}
}

func TestDoctorTellsWhetherTheClusterIssuesCredentialsByItself(t *testing.T) {
	for name, tc := range map[string]struct {
		denied, want string
	}{
		"by itself": {"", "warn approval the cluster approves this credential for every node"},
		"approved": {
			"certificatesigningrequests/nodeclient",
			"ok approval burstlet approve-certificates --bootstrap-groups (deploy/rbac/bootstrap.yaml), or a person",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &clusterExam{client: reviewer(tc.denied), user: whoami{name: "system:bootstrap:abcdef"}}
			e.bootstrapRights(context.Background())
			if len(e.found) != 3 {
				t.Fatal(e.found)
			}
			wantFinding(t, e.found[1], tc.want)
		})
	}
}
