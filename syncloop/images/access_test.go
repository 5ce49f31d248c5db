package images

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// accountLogins are those of ServiceAccounts, each of which has a login of its own each time.
type accountLogins struct{ asked int }

func (a *accountLogins) Credentials(_ context.Context, pod *corev1.Pod, _ string) []backend.Credential {
	a.asked++
	if pod.Spec.ServiceAccountName == "" {
		return nil
	}
	c := backend.Credential{
		Registry: "r.example", Username: string(rune('a' + a.asked)),
		ServiceAccount: "ns/" + pod.Spec.ServiceAccountName + "/uid",
	}
	if pod.Spec.ServiceAccountName != "stranger" {
		c.Password = "pw"
	}
	return []backend.Credential{c, c}
}

// What a ServiceAccount's login pulled serves pods of the same one, whatever their tokens are;
// others ask the registry (kubelet: KubernetesServiceAccounts of a pull record).
func TestImagesOfServiceAccounts(t *testing.T) {
	r, plugins := &registry{password: "pw"}, &accountLogins{}
	p := New(r, r, 1, 0).WithNodeLogins(plugins)
	for _, tt := range []struct {
		name, account string
		policy        corev1.PullPolicy
		own           []backend.Credential
		pulls         int
		reason        string
		// asked is how often plugins are.
		asked   int
		restart bool
	}{
		{name: "the first pulls", account: "a", policy: corev1.PullIfNotPresent, pulls: 1, asked: 1},
		{name: "another pod of it", account: "a", policy: corev1.PullNever, asked: 1},
		{name: "in the next process", account: "a", policy: corev1.PullNever, asked: 1, restart: true},
		{
			name: "another account may not use it", account: "b", policy: corev1.PullNever, reason: "ErrImageNeverPull",
			asked: 1,
		},
		{name: "but pull it", account: "b", policy: corev1.PullIfNotPresent, pulls: 1, asked: 2},
		{name: "and then use it", account: "b", policy: corev1.PullNever, asked: 1},
		{name: "the first still may", account: "a", policy: corev1.PullNever, asked: 1},
		{
			name: "a login that the registry refuses", account: "stranger", policy: corev1.PullIfNotPresent, pulls: 1,
			reason: "ErrImagePull", asked: 2,
		},
		{name: "none", policy: corev1.PullNever, reason: "ErrImageNeverPull", asked: 1},
		{name: "a pull secret", policy: corev1.PullIfNotPresent, own: loginOf(t, "s", "s", "pw"), pulls: 1, asked: 2},
		{name: "asks no plugin after that", policy: corev1.PullNever, own: loginOf(t, "s", "s", "pw")},
	} {
		if tt.restart {
			p = New(r, r, 1, 0).WithNodeLogins(plugins)
		}
		pulls, asked := r.pulls, plugins.asked
		pod := &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: tt.account}}
		_, err := p.EnsureImageExists(t.Context(), Wanted{
			Pod: pod, Image: "r.example/app:1", Policy: tt.policy, Credentials: tt.own,
		},
			func(string, string, string, ...any) {})
		if Reason(err) != tt.reason || r.pulls-pulls != tt.pulls || plugins.asked-asked != tt.asked {
			t.Errorf("%s: %v, %d pulls, plugins asked %d times; want %q, %d, %d",
				tt.name, err, r.pulls-pulls, plugins.asked-asked, tt.reason, tt.pulls, tt.asked)
		}
	}
}
