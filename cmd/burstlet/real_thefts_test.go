package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/provider/nodeuser"
	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// account makes a ServiceAccount in namespace default that has the rights of a file in
// deploy/rbac for a node, and returns its access. Other tests use the names of the file.
func (s *stage) account(name, node, file string) *rest.Config {
	s.t.Helper()
	ctx, namespace := s.t.Context(), metav1.NamespaceDefault
	accounts, rbac := s.admin.CoreV1().ServiceAccounts(namespace), s.admin.RbacV1()
	_, err := accounts.Create(
		ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{},
	)
	s.must(err)
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}}
	own := func(of string) string {
		if strings.HasPrefix(of, "burstlet:") {
			return name + ":" + strings.TrimPrefix(of, "burstlet:")
		}
		return of // the cluster's
	}
	for _, object := range rbacFile(s.t, file) {
		var err error
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			o.Name = own(o.Name)
			for i := range o.Rules {
				for j, of := range o.Rules[i].ResourceNames {
					if strings.TrimPrefix(of, nodeuser.Prefix) == "burstlet" {
						o.Rules[i].ResourceNames[j] = strings.TrimSuffix(of, "burstlet") + node
					}
				}
			}
			_, err = rbac.ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			o.Name, o.RoleRef.Name, o.Subjects = own(o.Name), own(o.RoleRef.Name), subjects
			_, err = rbac.ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.Role:
			if o.Namespace == "burstlet" {
				o.Namespace = namespace
			}
			o.Name = own(o.Name)
			_, err = rbac.Roles(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			if o.Namespace == "burstlet" {
				o.Namespace = namespace
			}
			o.Name, o.RoleRef.Name, o.Subjects = own(o.Name), own(o.RoleRef.Name), subjects
			_, err = rbac.RoleBindings(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *corev1.Namespace, *corev1.ServiceAccount:
		default:
			s.t.Fatalf("%s holds a %T", file, object)
		}
		s.must(err)
	}
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	s.must(err)
	return &rest.Config{
		Host: s.cp.URL(), BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: caOf(s.t, s)},
	}
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// theft is what somebody tries who holds burstlet's token.
type theft struct {
	name string
	as   rest.ImpersonationConfig // zero: as the ServiceAccount
	try  func(context.Context, kubernetes.Interface) error
	// may is true for what is burstlet's work, and so cannot be kept from the thief.
	may bool
}

// thefts are the table of docs/security.md. Node mine is the ServiceAccount's and runs pod
// mine, which uses Secret mine; node others is somebody else's.
func thefts(mine, others string, own rest.ImpersonationConfig) []theft {
	const in = metav1.NamespaceDefault
	patch := func(node string, body string) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Nodes().Patch(ctx, node, "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
			return err
		}
	}
	secret := func(name string) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Secrets(in).Get(ctx, name, metav1.GetOptions{})
			return err
		}
	}
	secrets := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
		return err
	}
	remove := func(pod string) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().Pods(in).Delete(ctx, pod, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}
	}
	token := func(
		account string, bound *authenticationv1.BoundObjectReference,
	) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().ServiceAccounts(in).CreateToken(ctx, account,
				&authenticationv1.TokenRequest{
					Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound},
				}, metav1.CreateOptions{})
			return err
		}
	}
	whoami := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.AuthenticationV1().SelfSubjectReviews().Create(
			ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{},
		)
		return err
	}
	user := func(name string, groups ...string) rest.ImpersonationConfig {
		return rest.ImpersonationConfig{UserName: name, Groups: groups}
	}
	self := rest.ImpersonationConfig{}
	return []theft{
		{"read a Secret", self, secret(mine), false},
		{"list Secrets", self, secrets, false},
		{"label its Node", self, patch(mine, `{"metadata":{"labels":{"x":"y"}}}`), false},
		{"delete a pod of its node", self, remove(mine), false},
		{"get a token of a pod's ServiceAccount", self, token("default", nil), false},
		{"run a pod", self, func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods(in).Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "theft"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}, false},
		{"become another node", user(nodeuser.Name(others), nodeuser.Group), whoami, false},
		{"become another node by its name alone", user(nodeuser.Name(others)), whoami, false},
		{"become an administrator", user("root", "system:masters"), whoami, false},
		{"become an administrator as its node", user(nodeuser.Name(mine), nodeuser.Group, "system:masters"), whoami, false},
		{"become a controller", user("system:kube-controller-manager"), whoami, false},
		{"become another ServiceAccount", user("system:serviceaccount:kube-system:default"), whoami, false},

		{"as its node: read a Secret that a pod of the node uses", own, secret(mine), true},
		{"as its node: read another Secret", own, secret(others), false},
		{"as its node: list Secrets", own, secrets, false},
		{"as its node: patch another Node", own, patch(others, `{"metadata":{"labels":{"x":"y"}}}`), false},
		{"as its node: remove its taint", own, patch(mine, `{"spec":{"taints":null}}`), false},
		{
			"as its node: take a label of the cluster's", own,
			patch(mine, `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`), false,
		},
		{"as its node: delete a pod of the node", own, remove(mine), true},
		{"as its node: delete a pod of another node", own, remove(others), false},
		{"as its node: get a token of a ServiceAccount that no pod names", own, token("default", nil), false},
		{"as its node: delete its Node", own, func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().Nodes().Delete(ctx, mine, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}, false},
	}
}

// TestRealThefts: what somebody can do who has stolen the token of burstlet's
// ServiceAccount, by real requests to a real API server; with the rights of each of the
// two files that give it a node.
func TestRealThefts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for file, variant := range map[string]struct {
		own func(string) rest.ImpersonationConfig
	}{
		"serviceaccount.yaml": {func(node string) rest.ImpersonationConfig {
			return rest.ImpersonationConfig{UserName: nodeuser.Name(node), Groups: []string{nodeuser.Group}}
		}},
		"constrained-impersonation.yaml": {func(node string) rest.ImpersonationConfig {
			return rest.ImpersonationConfig{UserName: nodeuser.Name(node)}
		}},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := &stage{t: t, cp: s.cp, admin: s.admin}
			kind, _, _ := strings.Cut(file, ".")
			mine, others := "mine-"+kind, "others-"+kind
			for _, name := range []string{mine, others} {
				s.inhabited(name)
			}
			stolen := s.account("stolen-"+kind, mine, file)
			for _, theft := range thefts(mine, others, variant.own(mine)) {
				t.Run(theft.name, func(t *testing.T) {
					by := rest.CopyConfig(stolen)
					by.Impersonate = theft.as
					client := cptest.Client(t, by)
					if theft.may { // once the API server knows of the rights
						wait.For(t, patience, "it succeeds", func() error { return theft.try(t.Context(), client) })
						return
					}
					if err := theft.try(t.Context(), client); !apierrors.IsForbidden(err) {
						t.Errorf("want Forbidden, got %v", err)
					}
				})
			}
		})
	}
}

// inhabited makes a node with a taint, a pod on it, and the Secret that the pod uses, all of
// one name.
func (s *stage) inhabited(name string) {
	s.t.Helper()
	ctx := s.t.Context()
	_, err := s.admin.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	s.must(err)
	_, err = s.admin.CoreV1().Secrets(metav1.NamespaceDefault).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"k": "v"},
	}, metav1.CreateOptions{})
	s.must(err)
	no := false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: name, AutomountServiceAccountToken: &no,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "c", Image: "busybox"}},
			Volumes: []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: name},
			}}},
		},
	}
	wait.For(s.t, patience, "make pod "+name, func() error { // once the ServiceAccount is there
		_, err := s.admin.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// A ServiceAccount that impersonates its node runs it: registration, lease, a pod with a
// Secret and a token, its certificate, the client CA; and doctor finds nothing amiss. With
// the rights of each file alone.
func TestRealImpersonation(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"serviceaccount.yaml", "constrained-impersonation.yaml"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			kind, _, _ := strings.Cut(file, ".")
			name := "posed-" + kind
			by := s.account(name, name, file)
			if file != "serviceaccount.yaml" { // which grants the client CA and the election too
				s.mayReadClientCA(name)
			}
			port := ports.Free(t)
			yaml := fmt.Sprintf(`
node: {name: %s, internalIP: 127.0.0.1}
kubeconfig: %s
impersonateNode: true
certDirectory: %s
backend: {type: sim, sim: {socket: "%%SOCKET%%"}}
kubeletAPI: {address: 127.0.0.1, port: %d, serverTLSBootstrap: true}
`, name, cptest.Kubeconfig(t, by), t.TempDir(), port)
			s.run(s.configure(yaml))
			s.ready(name)
			s.approve(nodeuser.Name(name), "kubernetes.io/kubelet-serving")
			s.podWithSecret(name)
			s.podReady(name)
			wait.For(t, patience, "the API has a certificate of the cluster", func() error { return s.certified(name, port) })
			out, err := s.diagnosed(yaml)
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			says(t, out, "which impersonates the node", "ok user system:node:"+name+", the node's own",
				"ok rights system:node:"+name+
					" has all ", "ok client CA that of ConfigMap kube-system/extension-apiserver-authentication")
			if strings.Contains(out, by.BearerToken) {
				t.Error("the token is printed")
			}
		})
	}
}

func (s *stage) mayReadClientCA(account string) {
	s.t.Helper()
	_, err := s.admin.RbacV1().RoleBindings(metav1.NamespaceSystem).Create(s.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extension-apiserver-authentication-reader",
		},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: metav1.NamespaceDefault}},
	}, metav1.CreateOptions{})
	s.must(err)
}

// podWithSecret makes a pod that reads a Secret and has a token of its ServiceAccount.
func (s *stage) podWithSecret(node string) {
	s.t.Helper()
	_, err := s.admin.CoreV1().Secrets(metav1.NamespaceDefault).Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: node}, StringData: map[string]string{"k": "v"},
	}, metav1.CreateOptions{})
	s.must(err)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: corev1.PodSpec{
			NodeName:    node,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "c", Image: "busybox", Command: []string{"sleep", "infinity"},
				EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: node},
				}}},
			}},
		},
	}
	wait.For(s.t, patience, "make pod "+node, func() error {
		_, err := s.admin.CoreV1().Pods(metav1.NamespaceDefault).Create(s.t.Context(), pod, metav1.CreateOptions{})
		return err
	})
	s.t.Cleanup(func() {
		zero := int64(0)
		_ = s.admin.CoreV1().Pods(metav1.NamespaceDefault).Delete(
			context.Background(), node, metav1.DeleteOptions{GracePeriodSeconds: &zero},
		)
	})
}

// Without the right to impersonate, doctor and the process say which.
func TestRealImpersonationWithoutTheRight(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	by := s.account("unable", "another", "serviceaccount.yaml")
	_, err := access.AsNode(t.Context(), by, "wanted")
	if err == nil ||
		!strings.Contains(
			err.Error(),
			"impersonateNode: the access to the API server may not impersonate user system:node:wanted in group system:nodes",
		) {
		t.Errorf("got %v", err)
	}
	out, err := s.diagnosed(
		fmt.Sprintf(
			"node: {name: wanted}\nkubeconfig: %s\nimpersonateNode: true\nbackend: {type: sim}\n", cptest.Kubeconfig(t, by),
		),
	)
	if err == nil {
		t.Error("doctor finds nothing")
	}
	says(t, out, "FAIL user impersonateNode: ", "grant it as deploy/rbac/serviceaccount.yaml does")
}
