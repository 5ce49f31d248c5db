package payload

import (
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/ecstest"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
	"github.com/burstlet/burstlet/test/kit/lane"
)

func classOf(err error) string { return backend.Class(err) }

// noise is what does not become less when it is compressed.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// launching is a launch of a pod with files of its shape and of its own.
func launching(shared, own []byte) backend.LaunchSpec {
	spec := ecstest.Spec(ecstest.Pod("a", "true"), 2)
	add := func(name string, data []byte, source corev1.VolumeSource) {
		if data != nil {
			spec.Volumes = append(spec.Volumes, backend.VolumeSpec{
				Pod: spec.Pod, Name: name, Source: source, Files: []backend.File{{Path: "f", Data: data}},
			})
		}
	}
	add("config", shared, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}})
	add("labels", own, corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}})
	return spec
}

func storeOf(h *held, bucket string) *Store { return New(h, h, Place{Bucket: bucket}, "node") }

// What a task cannot be given is refused before anything is stored.
func TestWhatIsTooLargeToStore(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	const own = podfiles.MaxParts * (podfiles.PartSize - 6) * 3 / 4
	for name, tc := range map[string]struct {
		spec backend.LaunchSpec
		want string // "": it is stored
	}{
		"little":                                   {spec: launching([]byte("a"), []byte("b"))},
		"own files of many secrets":                {spec: launching(nil, noise(500_000))},
		"own files of more than that":              {spec: launching(nil, noise(own)), want: "files of volumes: "},
		"shared files of more":                     {spec: launching(noise(own), nil), want: "files of volumes: "},
		"each fits, both do not":                   {spec: launching(noise(500_000), noise(100_000))},
		"a variable of two bytes that are no text": {spec: withSecretEnv("\xff\xfe"), want: "variable "},
		"variables that are too long": {
			spec: withSecretEnv(strings.Repeat("a", maxSecret)),
			want: "variables from Secrets have ",
		},
		"a login that is too long": {
			spec: withLogin(strings.Repeat("a", maxSecret)),
			want: "the login of registry r.example",
		},
		"a login": {spec: withLogin("password")},
	} {
		h := newHeld()
		refs, err := storeOf(h, "").Ensure(t.Context(), t.Context(), tc.spec)
		switch {
		case tc.want == "" && (err != nil || len(h.values) == 0):
			t.Errorf("%s: %+v, %v", name, refs, err)
		case tc.want != "" && (!errors.Is(err, backend.ErrInvalid) ||
			!strings.HasPrefix(err.Error(), "store what the pod needs: "+tc.want) || len(h.calls) > 0):
			t.Errorf("%s: %v (%s) after %v", name, err, classOf(err), h.calls)
		}
		if err != nil && (strings.Contains(err.Error(), "\xff") || strings.Contains(err.Error(), "aaaa")) {
			t.Errorf("%s: the error holds a value", name)
		}
	}
}

func TestHowMuchAnObjectTakes(t *testing.T) {
	const most = intask.MaxObject - podfiles.SealOverhead
	if err := fitsObject(most); err != nil {
		t.Error(err)
	}
	err := fitsObject(most + 1)
	if !errors.Is(err, backend.ErrInvalid) || !errors.Is(err, podfiles.ErrTooLarge) ||
		!strings.Contains(err.Error(), "an EFS volume") {
		t.Errorf("%v (%s)", err, classOf(err))
	}
}

func withSecretEnv(value string) backend.LaunchSpec {
	pod := ecstest.Pod("a", "true")
	spec := ecstest.Spec(pod, 0)
	spec.Containers[0].Container.Env = []corev1.EnvVar{{Name: "V", Value: value}}
	spec.Containers[0].Origins.Env = map[string]backend.Origin{"V": backend.OriginSecret}
	return spec
}

func withLogin(password string) backend.LaunchSpec {
	spec := ecstest.Spec(ecstest.Pod("a", "true"), 0)
	spec.Containers[0].Credentials = []backend.Credential{{Registry: "r.example", Username: "u", Password: password}}
	return spec
}

// Wherever storing ends half-way, the next try goes on under the same names, and Release
// leaves nothing of the pod.
func TestNothingIsLeftOfWhatWasStoredInPart(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	for _, bucket := range []string{"", "b"} {
		spec := launching([]byte("shared"), noise(120_000))
		whole := newHeld()
		if _, err := storeOf(whole, bucket).Ensure(t.Context(), t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		for n := range whole.calls {
			h := newHeld()
			p := storeOf(h, bucket)
			what, _, _ := strings.Cut(whole.calls[n], " ")
			h.fails, h.failure = n, awsError("InternalFailure")
			if _, err := p.Ensure(t.Context(), t.Context(), spec); !errors.Is(err, backend.ErrUnavailable) {
				t.Fatalf("%s fails: %v", what, err)
			}
			refs, err := p.Ensure(t.Context(), t.Context(), spec)
			again, err2 := p.Ensure(t.Context(), t.Context(), spec)
			if err != nil || err2 != nil || refs.PodName != again.PodName || refs.PodKey != again.PodKey ||
				len(h.values) != len(whole.values) {
				t.Errorf("%s failed: %v, %v, %d things are stored, want %d", what, err, err2, len(h.values), len(whole.values))
			}
			remove := "Delete"
			if bucket != "" {
				remove = "DeleteObject"
			}
			h.errors[remove] = awsError("ThrottlingException")
			if err := p.Release(t.Context(), spec.Ref()); !errors.Is(err, backend.ErrThrottled) {
				t.Errorf("a release that fails: %v", err)
			}
			clear(h.errors)
			if err := p.Release(t.Context(), spec.Ref()); err != nil {
				t.Error(err)
			}
			for name := range h.values {
				if strings.Contains(name, "/pod/") {
					t.Errorf("%s failed: %s is left", what, name)
				}
			}
		}
	}
}

// What another process stored for an attempt is released with it, and the payload of a
// task that is not this node's is left alone.
func TestWhatATaskWasGivenIsReleasedWithIt(t *testing.T) {
	h, spec := newHeld(), launching(nil, noise(60_000))
	refs, err := storeOf(h, "").Ensure(t.Context(), t.Context(), spec)
	if err != nil || len(h.values) < 2 {
		t.Fatalf("%v, %v", slices.Collect(maps.Keys(h.values)), err)
	}
	const foreign = "burstlet/other/pod/u/0.a.1"
	h.values[foreign] = "x"
	all := len(h.values)
	for _, tc := range []struct {
		name string
		left int
	}{{"", all}, {foreign, all}, {"s3://bucket/" + foreign, all}, {refs.PodName + "x", all}, {refs.PodName, 2}} {
		// what is left is foreign, and the salt
		p := storeOf(h, "")
		p.Observed(spec.Ref(), types.Task{Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{
			{Environment: []types.KeyValuePair{{Name: aws.String("OTHER"), Value: aws.String("x")}}},
			{Environment: []types.KeyValuePair{{Name: aws.String(intask.EnvPayload), Value: &tc.name}}},
		}}})
		if err := p.Release(t.Context(), spec.Ref()); err != nil || len(h.values) != tc.left {
			t.Errorf("%q: %d are left, want %d: %v", tc.name, len(h.values), tc.left, err)
		}
	}
}

// The salt is made once, by whomever, and one that is none stops launches.
func TestTheSaltOfNames(t *testing.T) {
	salt := Prefix("node") + kindSalt
	for name, tc := range map[string]struct {
		set  func(*held)
		want string
	}{
		"none yet": {set: func(*held) {}},
		"there":    {set: func(h *held) { h.values[salt] = newSalt() }},
		"no base64": {set: func(h *held) { h.values[salt] = "?" }, want: "secret " + salt +
			" is none of burstlet's: delete it"},
		"short": {set: func(h *held) { h.values[salt] = "AAAA" }, want: "secret " + salt +
			" is none of burstlet's: delete it"},
		"not allowed": {
			set: func(h *held) { h.errors["Get "+salt] = awsError("AccessDeniedException") }, want: "get secret " + salt,
		},
		"cannot be made": {
			set: func(h *held) { h.errors["Create "+salt] = awsError("LimitExceededException") }, want: "create secret " + salt,
		},
	} {
		h := newHeld()
		tc.set(h)
		p := storeOf(h, "")
		_, err := p.Ensure(t.Context(), t.Context(), withSecretEnv("v"))
		if tc.want == "" {
			if err != nil || h.values[salt] == "" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || len(h.values) > 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A shared secret that somebody deleted is made anew once it is looked at again.
func TestASharedSecretIsLookedAtNowAndThen(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		fails error // of the look
		made  bool
		want  error
	}{
		"at once: believed":   {after: 0},
		"just before":         {after: verifyAfter - 1},
		"later: made anew":    {after: verifyAfter, made: true},
		"a look that fails":   {after: verifyAfter, fails: awsError("InternalServiceError"), want: backend.ErrUnavailable},
		"it is being deleted": {after: verifyAfter, fails: awsError("ResourceNotFoundException"), made: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, spec := newHeld(), withSecretEnv("v")
				p := storeOf(h, "")
				refs, err := p.Ensure(t.Context(), t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				secret := strings.TrimPrefix(refs.EnvARN, "arn:")
				delete(h.values, secret)
				if tc.fails != nil {
					h.errors["Describe "+secret] = tc.fails
				}
				time.Sleep(tc.after)
				again, err := p.Ensure(t.Context(), t.Context(), spec)
				if tc.want == nil && err != nil || !errors.Is(err, tc.want) || err == nil && again.EnvARN != refs.EnvARN {
					t.Errorf("%v, %v", again, err)
				}
				if made := h.values[secret] != ""; made != tc.made {
					t.Errorf("it is there: %v", made)
				}
			})
		})
	}
}
