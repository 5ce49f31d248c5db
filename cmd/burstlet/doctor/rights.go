package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/burstlet/burstlet/backend"
)

// reviewsAtOnce bounds the questions to the authorizers.
const reviewsAtOnce = 8

// Files in which rights are granted.
const (
	fileServiceAccount = "deploy/rbac/serviceaccount.yaml"
	fileBootstrap      = "deploy/rbac/bootstrap.yaml"
)

// question is one right that is asked for.
type question struct {
	verb, resource string
	attributes     authorizationv1.ResourceAttributes
	allowed        bool
	reason         string // of the authorizer, if it gives one
}

// questions are those about a right. name is the object's where it has one of its
// own; asNode asks for no more than a node's own credential is granted.
func (r right) questions(name string, asNode bool) []question {
	if asNode && (r.scope == referenced || r.scope == unasked) {
		return nil
	}
	var out []question
	for _, full := range r.resources {
		resource, sub, _ := strings.Cut(full, "/")
		for _, verb := range r.verbs {
			a := authorizationv1.ResourceAttributes{
				Group: r.group, Resource: resource, Subresource: sub, Verb: verb, Namespace: r.namespace,
			}
			switch {
			case !asNode, r.scope == anyObject:
			case r.scope == ownObject && verb != "create":
				a.Name = name
				selectOne(&a, metav1.ObjectNameField, name)
			case r.scope == ownPods && (verb == "list" || verb == "watch"):
				selectOne(&a, "spec.nodeName", name)
			case r.scope == ownPods && verb == "get":
				continue // of pods that it runs
			}
			out = append(out, question{verb: verb, resource: full, attributes: a})
		}
	}
	return out
}

// selectOne narrows a list or a watch by one field.
func selectOne(a *authorizationv1.ResourceAttributes, field, value string) {
	if a.Verb != "list" && a.Verb != "watch" {
		return
	}
	a.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
		{Key: field, Operator: metav1.FieldSelectorOpIn, Values: []string{value}},
	}}
}

// askRights asks the API server whether the client has some rights.
func askRights(ctx context.Context, client kubernetes.Interface, questions []question) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(reviewsAtOnce)
	for i := range questions {
		q := &questions[i]
		g.Go(func() error {
			review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
				&authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &q.attributes},
				}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("ask the API server for rights: %w", err)
			}
			q.allowed, q.reason = review.Status.Allowed, review.Status.Reason
			return nil
		})
	}
	return g.Wait()
}

// rightFindings asks for rights, and returns a finding for each that is missing and
// one for all that are there.
func rightFindings(
	ctx context.Context, client kubernetes.Interface, what, who string, rights []right, name string, asNode bool,
	advice string,
) []backend.Finding {
	var found []backend.Finding
	asked, unknown := 0, []string{}
	for _, r := range rights {
		questions := r.questions(name, asNode)
		if len(questions) == 0 {
			unknown = append(unknown, r.resources...)
			continue
		}
		if err := askRights(ctx, client, questions); err != nil {
			return append(found, backend.Bad(what, err.Error(), ""))
		}
		asked += len(questions)
		if f := missing(what, who, r, questions, advice); f != nil {
			found = append(found, *f)
		}
	}
	if len(found) > 0 {
		return found
	}
	detail := fmt.Sprintf("%s has all %d that were asked for", who, asked)
	if len(unknown) > 0 {
		detail += "; those to " + strings.Join(unknown, ", ") + " come with pods that use them"
	}
	return []backend.Finding{backend.Good(what, detail)}
}

// missing says what a credential may not of a right; nil: it may all.
func missing(what, who string, r right, questions []question, advice string) *backend.Finding {
	var resources, verbs []string
	for _, q := range questions {
		if !q.allowed {
			resources, verbs = append(resources, q.resource), append(verbs, q.verb)
		}
	}
	if len(verbs) == 0 {
		return nil
	}
	distinct := func(words []string) string {
		var out []string
		for _, w := range words {
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
		return strings.Join(out, ", ")
	}
	subject := distinct(resources)
	if r.group != groupCore {
		subject += " of " + r.group
	}
	if r.namespace != "" {
		subject += " in namespace " + r.namespace
	}
	f := backend.Bad(what, fmt.Sprintf("%s may not %s %s: %s", who, distinct(verbs), subject, r.why), advice)
	f.Warn = r.optional
	return &f
}

// rights asks for what burstlet does in the API.
func (e *clusterExam) rights(ctx context.Context) {
	const what = "rights"
	if e.cred.bootstrap {
		e.bootstrapRights(ctx)
		return
	}
	var needed []right
	for _, r := range nodeRights() {
		if r.needed == nil || r.needed(e.cfg) {
			needed = append(needed, r)
		}
	}
	asNode := e.user.isNode()
	advice := "act as the node: set impersonateNode and apply " + fileServiceAccount
	if asNode {
		advice = "the API server needs --authorization-mode=Node,RBAC and the node's own name in the credential"
	}
	e.add(rightFindings(ctx, e.client, what, e.user.name, needed, e.cfg.Node.Name, asNode, advice)...)
	e.audiences(ctx, asNode)
	e.clientCA(ctx, asNode)
}

// bootstrapRights asks whether the node's credential can be requested, and whether
// it is issued without somebody's approval.
func (e *clusterExam) bootstrapRights(ctx context.Context) {
	const what = "rights"
	e.add(rightFindings(ctx, e.client, what, e.user.name, bootstrapRights(), "", false,
		"apply "+fileBootstrap+" and make the token with auth-extra-groups: system:bootstrappers:burstlet")...)
	auto := []question{{attributes: authorizationv1.ResourceAttributes{
		Group: groupCertificates, Resource: "certificatesigningrequests", Subresource: "nodeclient", Verb: "create",
	}}}
	switch err := askRights(ctx, e.client, auto); {
	case err != nil:
		e.add(backend.Bad("approval", err.Error(), ""))
	case auto[0].allowed:
		e.add(backend.Doubtful("approval", "the cluster approves this credential for every node: whoever holds it can "+
			"become any of them",
			"unbind system:certificates.k8s.io:certificatesigningrequests:nodeclient, and run burstlet approve-certificates "+
				"--bootstrap-groups ("+fileBootstrap+")"))
	default:
		e.add(backend.Good("approval", "burstlet approve-certificates --bootstrap-groups ("+fileBootstrap+
			"), or a person with "+
			"kubectl certificate approve, must approve the request for the node's credential when burstlet starts"))
	}
	e.add(backend.Doubtful("node's rights", "cannot be asked for before the node has its own credential",
		"run burstlet doctor again when burstlet has started once"))
}

// clientCA asks whether the CA of callers of the kubelet API can be read where no
// file has it.
func (e *clusterExam) clientCA(ctx context.Context, asNode bool) {
	const what = "client CA"
	if !servesAPI(e.cfg) || e.cfg.KubeletAPI.ClientCAFile != "" {
		return
	}
	const namespace, name = metav1.NamespaceSystem, "extension-apiserver-authentication"
	advice := "set kubeletAPI.clientCAFile to a file with the CA that signed the API server's kubelet client certificate"
	client, err := e.client, error(nil)
	if asNode && e.cred.beneath != nil {
		client, err = kubernetes.NewForConfig(e.cred.beneath)
		asNode = false
	}
	if err != nil {
		e.add(backend.Bad(what, err.Error(), ""))
		return
	}
	if asNode {
		e.add(backend.Bad(what, "a node's credential may not read ConfigMap "+namespace+"/"+name, advice))
		return
	}
	_, err = client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		e.add(backend.Bad(what, err.Error(), advice))
		return
	}
	e.add(backend.Good(what, "that of ConfigMap "+namespace+"/"+name))
}
