package images

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// registry is a remote whose registry gives an image only to those who have its password,
// or to everyone; it keeps records.
type registry struct {
	password string
	has      bool
	pulls    int
	records  []byte
	saves    int
	saveErr  error
	loadErr  error
	// lost has a pull take effect though its caller sees an error.
	lost bool
}

func (r *registry) Find(context.Context, string) (string, error) {
	if r.has {
		return "id", nil
	}
	return "", backend.ErrNotFound
}

func (r *registry) Pull(_ context.Context, _ string, creds []backend.Credential) (backend.PulledImage, error) {
	r.pulls++
	allowed := r.password == "" ||
		slices.ContainsFunc(creds, func(c backend.Credential) bool { return c.Password == r.password })
	if !allowed {
		return backend.PulledImage{}, errors.New("401 Unauthorized")
	}
	r.has = true
	if r.lost {
		return backend.PulledImage{}, errors.New("the connection broke")
	}
	return backend.PulledImage{ID: "id"}, nil
}

func (r *registry) Load(context.Context) ([]byte, error) { return r.records, r.loadErr }

func (r *registry) Save(_ context.Context, data []byte) error {
	if r.saveErr != nil {
		return r.saveErr
	}
	r.saves++
	r.records = slices.Clone(data)
	return nil
}

// loginOf is what a pod's pull secret of this name and contents gives.
func loginOf(t *testing.T, namespace, name, password string) []backend.Credential {
	t.Helper()
	secret := secretOf(name, password)
	secret.Namespace, secret.UID = namespace, types.UID(namespace+name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: name}}
	creds, err := Credentials(pod, []*corev1.Secret{secret}, "r.example/app")
	if err != nil || len(creds) != 1 {
		t.Fatal(creds, err)
	}
	return creds
}

func secretOf(name, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{
			corev1.DockerConfigJsonKey: []byte(`{"auths":{"r.example":{"username":"u","password":"` + password + `"}}}`),
		},
	}
}

// logTo has the log written to a buffer.
func logTo(ctx context.Context, out *bytes.Buffer) context.Context {
	logger := logrus.New()
	logger.SetOutput(out)
	return log.WithLogger(ctx, logrus.NewEntry(logger))
}

func ensure(p *Puller, policy corev1.PullPolicy, image string, creds []backend.Credential) error {
	return ensureIn(context.Background(), p, policy, image, creds)
}

func ensureIn(
	ctx context.Context, p *Puller, policy corev1.PullPolicy, image string, creds []backend.Credential,
) error {
	_, err := p.EnsureImageExists(ctx, Wanted{Image: image, Policy: policy, Credentials: creds},
		func(string, string, string, ...any) {})
	return err
}

// An image that one pod pulled with its secret is given to others only as the registry
// would; across restarts, too (kubelet: NeverVerifyPreloadedImages).
func TestImagesAreGivenToThoseWhoMayPullThem(t *testing.T) {
	const image = "r.example/app:1"
	for _, restart := range []bool{false, true} {
		r := &registry{password: "pw"}
		p := New(r, r, 1, 0)
		again := func() {
			if restart {
				p = New(r, r, 1, 0)
			}
		}
		mine := loginOf(t, "a", "s", "pw")
		if err := ensure(p, corev1.PullIfNotPresent, image, mine); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			name   string
			policy corev1.PullPolicy
			image  string
			creds  []backend.Credential
			pulls  int
			reason string
		}{
			{"the same secret", corev1.PullIfNotPresent, image, mine, 0, ""},
			{"the same secret, never", corev1.PullNever, image, mine, 0, ""},
			{"no secret", corev1.PullIfNotPresent, image, nil, 1, "ErrImagePull"},
			{"no secret, never", corev1.PullNever, image, nil, 0, "ErrImageNeverPull"},
			{"a secret with another login", corev1.PullIfNotPresent, image, loginOf(t, "b", "s", "no"), 1, "ErrImagePull"},
			{"the same login in another secret", corev1.PullIfNotPresent, image, loginOf(t, "b", "s", "pw"), 0, ""},
			{"the secret, renewed", corev1.PullIfNotPresent, image, loginOf(t, "a", "s", "new"), 0, ""},
			{"by another tag of the repository", corev1.PullIfNotPresent, "r.example/app:2", mine, 0, ""},
			{"by another repository", corev1.PullIfNotPresent, "r.example/other:1", mine, 1, ""},
		} {
			again()
			before := r.pulls
			err := ensure(p, step.policy, step.image, step.creds)
			if got := r.pulls - before; got != step.pulls || Reason(err) != step.reason {
				t.Errorf("%s: %d pulls, want %d; %v, want %q", step.name, got, step.pulls, err, step.reason)
			}
			may := p.Present(t.Context(), Wanted{Image: step.image, Policy: corev1.PullIfNotPresent, Credentials: step.creds})
			if found := may != ""; found != (step.reason == "") {
				t.Errorf("%s: a look ahead finds it: %v", step.name, found)
			}
		}
		if bytes.Contains(r.records, []byte("pw")) {
			t.Errorf("the records hold the password: %s", r.records)
		}
		r.password = ""
		again()
		if err := ensure(p, corev1.PullIfNotPresent, image, nil); err != nil {
			t.Fatal(err)
		}
		again()
		if before := r.pulls; ensure(p, corev1.PullIfNotPresent, image, nil) != nil || r.pulls != before {
			t.Error("an image that was pulled without a login is not given to everyone")
		}
	}
}

// An image that was there before serves everyone, and pulls without a login cost no call.
func TestPreloadedImagesServeEveryone(t *testing.T) {
	r := &registry{password: "pw", has: true}
	if err := ensure(New(r, r, 1, 0), corev1.PullIfNotPresent, "r.example/app", nil); err != nil || r.pulls > 0 {
		t.Errorf("%v, %d pulls", err, r.pulls)
	}
	r = &registry{}
	if err := ensure(New(r, r, 1, 0), corev1.PullIfNotPresent, "r.example/app", nil); err != nil || r.saves > 0 {
		t.Errorf("%v, %d saves of a pull without a login", err, r.saves)
	}
}

// A pull that breaks off may be finished by the remote: its image is none that was there
// before.
func TestPullWithoutAReplyIsNoPreloadedImage(t *testing.T) {
	r := &registry{password: "pw", lost: true}
	if err := ensure(New(r, r, 1, 0), corev1.PullIfNotPresent, "r.example/app", loginOf(t, "a", "s", "pw")); err == nil {
		t.Fatal("want the error of the pull")
	}
	if err := ensure(New(r, r, 1, 0), corev1.PullNever, "r.example/app", nil); Reason(err) != "ErrImageNeverPull" {
		t.Errorf("the next process gives it to everyone: %v", err)
	}
}

// Where records cannot be kept nothing is pulled that would need one; where they cannot be
// read nobody is given what is there.
func TestRecordsThatCannotBeKept(t *testing.T) {
	r := &registry{password: "pw", saveErr: errors.New("read-only file system")}
	p := New(r, r, 1, 0)
	err := ensure(p, corev1.PullIfNotPresent, "r.example/app", loginOf(t, "a", "s", "pw"))
	if r.pulls > 0 || err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("%d pulls, %v", r.pulls, err)
	}
	if r.saveErr = nil; ensure(p, corev1.PullIfNotPresent, "r.example/app", loginOf(t, "a", "s", "pw")) != nil {
		t.Error("it does not pull once records can be saved")
	}
	broken := &registry{has: true, loadErr: errors.New("input/output error")}
	if err := ensure(
		New(broken, broken, 1, 0), corev1.PullNever, "r.example/app", nil,
	); Reason(err) != "ImageInspectError" {
		t.Errorf("%v", err)
	}
}

// Damaged records grant nothing and stop nobody: images that are there are pulled by those
// who may. It holds after a restart, and until a listing has named the images that the
// records may have been about.
func TestDamagedRecords(t *testing.T) {
	const image = "r.example/app:1"
	whole := &registry{password: "pw"}
	mine := loginOf(t, "a", "s", "pw")
	if err := ensure(New(whole, whole, 1, 0), corev1.PullIfNotPresent, image, mine); err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string]*registry{
		"cut":             {records: whole.records[:len(whole.records)/2]},
		"zeros":           {records: make([]byte, len(whole.records))},
		"null":            {records: []byte("null")},
		"null inside":     {records: []byte(`{"pulled":null,"pulling":null}`)},
		"another type":    {records: []byte(`{"pulled":{"id":3}}`)},
		"nothing at all":  {loadErr: backend.Errorf(backend.ErrInvalid, "the file is empty")},
		"not even a JSON": {records: []byte("\xff\xfe")},
	} {
		t.Run(name, func(t *testing.T) {
			r := damaged
			r.has, r.password = true, "pw"
			var out bytes.Buffer
			ctx := logTo(t.Context(), &out)
			p := New(r, r, 1, 0)
			for range 2 {
				if err := ensureIn(ctx, p, corev1.PullIfNotPresent, image, nil); Reason(err) != "ErrImagePull" {
					t.Errorf("without a login: %v", err)
				}
			}
			if n := strings.Count(out.String(), "damaged"); n != 1 || strings.Contains(out.String(), "hash") {
				t.Errorf("logged %d times: %s", n, out.String())
			}
			if err := ensure(p, corev1.PullIfNotPresent, image, mine); err != nil {
				t.Errorf("with the login: %v", err)
			}
			r.loadErr = nil
			p = New(r, r, 1, 0)
			if err := ensure(p, corev1.PullNever, image, mine); err != nil {
				t.Errorf("the record that was made since: %v", err)
			}
			other := &otherImage{r}
			p = New(other, r, 1, 0)
			if err := ensure(p, corev1.PullNever, "r.example/other", nil); Reason(err) != "ErrImageNeverPull" {
				t.Errorf("the next process gives another image to everyone: %v", err)
			}
			p.Listed([]backend.ImageFacts{{ID: "id"}, {ID: "other"}}, time.Now().Add(time.Second))
			if err := ensure(p, corev1.PullNever, "r.example/other", nil); Reason(err) != "ErrImageNeverPull" {
				t.Errorf("after a listing: %v", err)
			}
			p.Listed([]backend.ImageFacts{{ID: "id"}}, time.Now().Add(2*time.Second))
			if err := ensure(p, corev1.PullNever, "r.example/other", nil); err != nil {
				t.Errorf("an image that came after the listing: %v", err)
			}
		})
	}
}

// otherImage has an image of its own beside a registry's.
type otherImage struct{ *registry }

func (*otherImage) Find(context.Context, string) (string, error) { return "other", nil }

// Two pods want one private image at once, and it is there before the first pull is
// recorded: the second has no login, and gets it by no name.
func TestPodsAtOnceWithAndWithoutALogin(t *testing.T) {
	const digest = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	const others = "@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	for _, tt := range []struct {
		first, second string
		free          bool
	}{
		{"r.example/app:1", "r.example/app:1", false},
		{"r.example/app:1", "r.example/app" + digest, false},
		{"r.example/app:1" + digest, "r.example/app" + digest, false},
		{"r.example/app" + digest, "r.example/app:1" + digest, false},
		{"r.example/app" + others, "r.example/app" + digest, true},
		{"r.example/app:1", "r.example/app:2", true},
		{"r.example/other:1", "r.example/app" + digest, true},
	} {
		t.Run(tt.first+" "+tt.second, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &slowRegistry{registry: &registry{password: "pw"}, hold: make(chan struct{})}
				p := New(r, r, 9, 0)
				first := make(chan error, 1)
				mine := loginOf(t, "a", "s", "pw")
				go func() { first <- ensure(p, corev1.PullIfNotPresent, tt.first, mine) }()
				synctest.Wait() // the image is there, its pull has not returned
				if !r.has {
					t.Fatal("the pull is not under way")
				}
				err := ensure(p, corev1.PullIfNotPresent, tt.second, nil)
				if got := err == nil; got != tt.free {
					t.Errorf("the second got it: %v (%v)", got, err)
				}
				if err := ensure(p, corev1.PullIfNotPresent, tt.second, loginOf(t, "b", "s", "no")); (err == nil) != tt.free {
					t.Errorf("with another login: %v", err)
				}
				close(r.hold)
				if err := <-first; err != nil {
					t.Fatal(err)
				}
				if err := ensure(p, corev1.PullIfNotPresent, tt.first, nil); err == nil {
					t.Error("afterwards it is given to everyone")
				}
			})
		})
	}
}

// slowRegistry holds the reply to pulls that succeeded.
type slowRegistry struct {
	*registry
	hold chan struct{}
}

func (r *slowRegistry) Pull(
	ctx context.Context, image string, creds []backend.Credential,
) (backend.PulledImage, error) {
	pulled, err := r.registry.Pull(ctx, image, creds)
	if err == nil {
		<-r.hold
	}
	return pulled, err
}

// Records go with their images, but not those of pulls since the listing.
func TestRecordsGoWithTheirImages(t *testing.T) {
	r := &registry{password: "pw"}
	p := New(r, r, 1, 0)
	began := time.Now()
	if err := ensure(p, corev1.PullIfNotPresent, "r.example/app", loginOf(t, "a", "s", "pw")); err != nil {
		t.Fatal(err)
	}
	none := func() bool { return ensure(p, corev1.PullNever, "r.example/app", nil) == nil }
	if p.Listed(nil, began); none() {
		t.Error("a listing from before the pull took its record")
	}
	if p.Listed([]backend.ImageFacts{{ID: "id"}}, time.Now()); none() {
		t.Error("the record went, and the image is there")
	}
	if p.Listed(nil, time.Now()); !none() { // somebody loaded it by hand since
		t.Error("the record of an image that went is still there")
	}
}

// nodeLogins are those of a node.
type nodeLogins struct {
	password string
	asked    []string
}

func (n *nodeLogins) Credentials(_ context.Context, _ *corev1.Pod, repository string) []backend.Credential {
	n.asked = append(n.asked, repository)
	return []backend.Credential{{Registry: "r.example", Username: "u", Password: n.password, Node: true}}
}

// A node's logins come after the pod's, and only for a pull. What they pulled serves every pod
// of the node; what a pod pulled beside them, those with its login.
func TestLoginsOfTheNode(t *testing.T) {
	const image = "r.example/app:1"
	for _, tt := range []struct {
		name        string
		node        string
		first       []backend.Credential
		others      string // what a pod without a login gets under Never
		mine, asked int    // pulls and questions when the first pod starts again
	}{
		{"alone", "pw", nil, "", 0, 0},
		{"beside the pod's", "no", loginOf(t, "a", "s", "pw"), "ErrImageNeverPull", 0, 0},
		{"instead of the pod's", "pw", loginOf(t, "a", "s", "no"), "ErrImageNeverPull", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, node := &registry{password: "pw"}, &nodeLogins{password: tt.node}
			p := New(r, r, 1, 0).WithNodeLogins(node)
			if err := ensure(p, corev1.PullIfNotPresent, image, tt.first); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(node.asked, []string{"r.example/app"}) {
				t.Errorf("asked for %q", node.asked)
			}
			pulls := r.pulls
			if err := ensure(p, corev1.PullIfNotPresent, image, tt.first); err != nil || r.pulls != pulls+tt.mine ||
				len(node.asked) != 1+tt.asked {
				t.Errorf("again: %v, %d pulls, asked %d times", err, r.pulls, len(node.asked))
			}
			if err := ensure(p, corev1.PullNever, image, nil); Reason(err) != tt.others {
				t.Errorf("another pod: %v", err)
			}
			if err := ensure(p, corev1.PullIfNotPresent, image, nil); (err == nil) != (tt.node == "pw") {
				t.Errorf("another pod that may pull: %v", err)
			}
		})
	}
}
