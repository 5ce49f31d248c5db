package credentialprovider

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"
	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/burstlet/burstlet/backend"
)

func aPod(name, account string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{ServiceAccountName: account},
	}
}

// issuer is an API server that gives numbered tokens of an hour.
type issuer struct {
	*fake.Clientset
	t *testing.T
	// fails has requests fail, refuses so many of them.
	fails           error
	refuses, issued int
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t, Clientset: fake.NewClientset()}
	for name, annotations := range map[string]map[string]string{
		"a": {"role": "reader", "more": "yes"}, "b": {"role": "reader"}, "bare": nil,
	} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Annotations: annotations,
		}}
		if err := i.Tracker().Add(account); err != nil {
			t.Fatal(err)
		}
	}
	i.PrependReactor("create", "serviceaccounts", i.issue)
	return i
}

func (i *issuer) issue(a clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := a.(clienttesting.CreateActionImpl)
	if !ok || create.Subresource != "token" {
		return false, nil, nil
	}
	if i.refuses--; i.refuses >= 0 {
		return true, nil, apierrors.NewForbidden(
			corev1.Resource("serviceaccounts"), create.Name, errors.New("no relationship found"),
		)
	}
	if i.fails != nil {
		return true, nil, i.fails
	}
	r := create.Object.(*authenticationv1.TokenRequest)
	bound := r.Spec.BoundObjectRef
	if string(r.UID) != "uid-"+create.Name || len(r.Spec.Audiences) != 1 || r.Spec.Audiences[0] != "registry" ||
		bound.Kind != "Pod" ||
		string(bound.UID) != "uid-"+bound.Name || r.Spec.ExpirationSeconds != nil {
		i.t.Errorf("requested for %s: %+v", create.Name, r)
	}
	i.issued++
	r.Status = authenticationv1.TokenRequestStatus{
		Token:               fmt.Sprintf("%s-%s-%d", create.Name, bound.Name, i.issued),
		ExpirationTimestamp: metav1.Time{Time: time.Now().Add(time.Hour)},
	}
	return true, r, nil
}

const tokens = "  tokenAttributes: {serviceAccountTokenAudience: registry, cacheType: %s, requireServiceAccount: " +
	"%v%s}\n"

// What a plugin is asked for whom, and whose its answers are.
func TestPluginsAreGivenTokens(t *testing.T) {
	const keys = ", requiredServiceAccountAnnotationKeys: [role], optionalServiceAccountAnnotationKeys: [more, less]"
	a, b := question{ServiceAccountToken: "a-p-1"}, question{ServiceAccountToken: "b-q-2"}
	annotated := a
	annotated.ServiceAccountAnnotations = map[string]string{"role": "reader", "more": "yes"}
	type ask struct{ pod, account, holder string } // of the answer; "-" for none, "node" for the node's
	p, q := ask{"p", "a", "ns/a/uid-a"}, ask{"q", "b", "ns/b/uid-b"}
	again := ask{"r", "a", "ns/a/uid-a"}
	for _, tt := range []struct {
		name, cache, keys, password string
		optional                    bool
		pods                        []ask
		asked                       []question
	}{
		{name: "by ServiceAccount", cache: "ServiceAccount", pods: []ask{p, q, again}, asked: []question{a, b}},
		{name: "by token", cache: "Token", pods: []ask{p, q, again, p}, asked: []question{
			a, b, {ServiceAccountToken: "a-r-3"},
		}},
		{
			name: "with annotations", cache: "ServiceAccount", keys: keys, pods: []ask{p, {"s", "bare", "-"}},
			asked: []question{annotated},
		},
		{name: "a pod without one", cache: "ServiceAccount", pods: []ask{{"p", "", "-"}}},
		{
			name: "a pod that needs none", cache: "ServiceAccount", optional: true, pods: []ask{{"p", "", "node"}},
			asked: []question{{}},
		},
		{name: "one that is not there", cache: "ServiceAccount", pods: []ask{{"p", "gone", "-"}}},
		{name: "the token as the login", cache: "Token", password: "TOKEN", pods: []ask{p}, asked: []question{a}},
		{
			name: "the token as everybody's login", cache: "ServiceAccount", password: "TOKEN", pods: []ask{{"p", "a", "-"}},
			asked: []question{a},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := answerOf("Registry", "")
			if tt.password != "" {
				answer = strings.Replace(answer, "secret", tt.password, 1)
			}
			config, bin, file := write(t, answer, "1h", fmt.Sprintf(tokens, tt.cache, !tt.optional, tt.keys))
			plugins, err := Read(config, bin, newIssuer(t).CoreV1())
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range tt.pods {
				creds := plugins.Credentials(t.Context(), aPod(one.pod, one.account), "a.cloud.example/x")
				if holder := holderOf(creds); holder != one.holder {
					t.Errorf("%+v: the answer is %s's", one, holder)
				}
				if tt.password != "" && len(creds) == 1 && creds[0].Password != "a-p-1" {
					t.Errorf("%+v: not its token", one)
				}
			}
			got := asked(t, file)
			for i := range got {
				got[i].APIVersion, got[i].Kind, got[i].Image = "", "", ""
			}
			if diff := cmp.Diff(tt.asked, got); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// holderOf says whose the one login is.
func holderOf(creds []backend.Credential) string {
	switch {
	case len(creds) == 0:
		return "-"
	case len(creds) > 1, creds[0].Node != (creds[0].ServiceAccount == ""):
		return "somebody"
	case creds[0].Node:
		return "node"
	}
	return creds[0].ServiceAccount
}

// Without a token a plugin is not asked; the log says for which pod, and what is missing.
func TestTokenIsRefused(t *testing.T) {
	config, bin, file := write(t, answerOf("Registry", ""), "1h", fmt.Sprintf(tokens, "Token", true, ""))
	issuer := newIssuer(t)
	issuer.fails = errors.New(`audience "registry" not found in pod spec volume`)
	plugins, err := Read(config, bin, issuer.CoreV1())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	logger := logrus.New()
	logger.SetOutput(&out)
	ctx := log.WithLogger(t.Context(), logrus.NewEntry(logger))
	if creds := plugins.Credentials(ctx, aPod("p", "a"), "a.cloud.example/x"); len(creds) > 0 || len(asked(t, file)) > 0 {
		t.Errorf("%d logins", len(creds))
	}
	for _, want := range []string{"ns/p", "ServiceAccount a", "audience", "not found in pod spec volume"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
}

// A token serves until four fifths of its life, and on while it cannot be renewed; a refusal
// is asked again at once.
func TestTokensAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t)
		a := newAccounts(issuer.CoreV1())
		account, err := issuer.CoreV1().ServiceAccounts("ns").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		expect := func(step, want string) {
			t.Helper()
			if got, err := a.token(t.Context(), aPod("p", "a"), account, "registry"); got != want ||
				(err == nil) != (want != "") {
				t.Errorf("%s: %q, %v; want %q", step, got, err, want)
			}
		}
		issuer.refuses = 3
		expect("a pod that was just bound", "a-p-1")
		time.Sleep(47 * time.Minute)
		expect("not due yet", "a-p-1")
		time.Sleep(2 * time.Minute)
		issuer.fails = errors.New("away")
		expect("not to be had", "a-p-1")
		time.Sleep(12 * time.Minute)
		expect("and no longer good", "")
		issuer.fails = nil
		expect("again", "a-p-2")
		if _, err := a.token(t.Context(), aPod("q", "a"), account, "registry"); err != nil || len(a.tokens) != 2 {
			t.Errorf("%v, %d tokens are kept", err, len(a.tokens))
		}
	})
}
