package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// TestRealThefts: what somebody can do who has stolen the token of burstlet's
// ServiceAccount, by real requests to a real API server; with the rights of each of the
// two files that give it a node.
func TestRealThefts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for file, variant := range map[string]struct {
		groups []string
		elects bool
	}{
		"serviceaccount.yaml":            {[]string{nodeuser.Group}, true},
		"constrained-impersonation.yaml": {nil, false}, // which comes beside the other's last two roles
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := &stage{t: t, cp: s.cp, admin: s.admin}
			kind, _, _ := strings.Cut(file, ".")
			th := thief{
				account: "stolen-" + kind, mine: "mine-" + kind, others: "others-" + kind, elects: variant.elects, admin: s.admin,
			}
			th.own = rest.ImpersonationConfig{UserName: nodeuser.Name(th.mine), Groups: variant.groups}
			for _, name := range []string{th.mine, th.others} {
				s.inhabited(name)
			}
			stolen := s.account(th.account, th.mine, file)
			for _, theft := range th.thefts() {
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

// inhabited makes a node with a taint and a lease, a pod on it, and a Secret, a ConfigMap and a
// claim that the pod uses beside a token, all of one name.
func (s *stage) inhabited(name string) {
	s.t.Helper()
	ctx, meta := s.t.Context(), metav1.ObjectMeta{Name: name}
	core := s.admin.CoreV1()
	_, err := core.Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: meta, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	s.must(err)
	_, err = core.Secrets(robbed).Create(ctx, &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})
	s.must(err)
	_, err = core.ConfigMaps(robbed).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
	s.must(err)
	_, err = core.PersistentVolumeClaims(robbed).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(""), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	volume := func(name string, source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: source}
	}
	of := corev1.LocalObjectReference{Name: name}
	pod := &corev1.Pod{
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			NodeName: name, AutomountServiceAccountToken: new(false),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "c", Image: "busybox"}},
			Volumes: []corev1.Volume{
				volume("s", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}),
				volume("m", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: of}}),
				volume("v", corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
				}),
				volume("t", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				}}}),
			},
		},
	}
	wait.For(s.t, patience, "make pod "+name, func() error { // once the ServiceAccount is there
		_, err := core.Pods(robbed).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	wait.For(s.t, patience, "make lease "+name, func() error { // once its namespace is there
		_, err := s.admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(
			ctx, &coordinationv1.Lease{ObjectMeta: meta}, metav1.CreateOptions{},
		)
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
