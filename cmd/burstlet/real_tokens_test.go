package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/cmd/burstlet/credentialprovider"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
)

// A node's own rights are enough for the tokens of credential provider plugins, with one for
// the audience: without it NodeRestriction refuses, and the plugin is not asked.
func TestRealTokensForCredentialProviders(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const node, audience = "imager", "registry.example"
	credential, err := s.cp.NodeCredential(node)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	for name, text := range map[string]string{
		"cloud": fmt.Sprintf(`#!/bin/sh
cat > %s
echo '{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse", "cacheKeyType": "Registry",
  "auth": {"r.example": {"username": "u", "password": "p"}}}'
`, asked),
		"config.yaml": fmt.Sprintf(`
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: cloud
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [r.example]
  defaultCacheDuration: 1h
  tokenAttributes: {serviceAccountTokenAudience: %s, cacheType: ServiceAccount, requireServiceAccount: true}
`, audience),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // one is a program
			t.Fatal(err)
		}
	}
	plugins, err := credentialprovider.Read(filepath.Join(dir, "config.yaml"), dir, cptest.Client(t, credential).CoreV1())
	if err != nil {
		t.Fatal(err)
	}
	pod := s.pod(node, "wants-an-image")
	if creds := plugins.Credentials(t.Context(), pod, "r.example/app"); len(creds) > 0 {
		t.Error("a token for an audience that the node has no right to")
	}
	if _, err := os.Stat(asked); !os.IsNotExist(err) {
		t.Errorf("the plugin was asked: %v", err)
	}
	s.allowAudience(audience)
	wait.For(t, patience, "the plugin's login", func() error {
		if len(plugins.Credentials(t.Context(), pod, "r.example/app")) != 1 {
			return errNotYet
		}
		return nil
	})
	data, err := os.ReadFile(asked)
	if err != nil {
		t.Fatal(err)
	}
	var question struct{ ServiceAccountToken string }
	if err := json.Unmarshal(data, &question); err != nil {
		t.Fatal(err)
	}
	review, err := s.admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: question.ServiceAccountToken, Audiences: []string{audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	who := review.Status
	if !who.Authenticated || who.User.Username != "system:serviceaccount:default:"+pod.Spec.ServiceAccountName ||
		who.User.Extra["authentication.kubernetes.io/pod-name"][0] != pod.Name {
		t.Errorf("the plugin's token is that of %+v: %s", who.User, who.Error)
	}
}

// allowAudience lets nodes request tokens for an audience, as docs/backends.md has it.
func (s *stage) allowAudience(audience string) {
	s.t.Helper()
	rbac, ctx := s.admin.RbacV1(), s.t.Context()
	meta := metav1.ObjectMeta{Name: "audience-" + audience}
	_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{audience}, Verbs: []string{"request-serviceaccounts-token-audience"},
	}}}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}
