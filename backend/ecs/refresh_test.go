package ecs

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/lane"
)

// storedFiles are what burstlet-agent of the only task finds, by volume and path.
func storedFiles(t *testing.T, s *stub.Server) map[string]string {
	t.Helper()
	task := tasksOf(t, s).Tasks[0]
	agent := map[string]string{}
	for _, o := range task.Overrides.ContainerOverrides {
		for _, e := range o.Environment {
			if *o.Name == identity.AgentName {
				agent[*e.Name] = *e.Value
			}
		}
	}
	newest := podfiles.Payload{Seq: -1}
	slots, err := podfiles.SlotNames(agent[intask.EnvPayload])
	must(t, err)
	for _, name := range slots {
		if p := storedIn(t, s, name, agent[intask.EnvPayloadKey]); p != nil && p.Seq > newest.Seq {
			newest = *p
		}
	}
	out := map[string]string{}
	for _, v := range newest.Volumes {
		for _, f := range v.Files {
			out[v.Name+"/"+f.Path] = string(f.Data)
		}
	}
	return out
}

// storedIn is the payload whose first part has this name; nil for none.
func storedIn(t *testing.T, s *stub.Server, name, key string) *podfiles.Payload {
	t.Helper()
	names, err := podfiles.PartNames(name)
	must(t, err)
	if bucket, object, ok := intask.SplitObject(name); ok {
		return openedPayload(t, key, name, objectIn(t, s, bucket, object))
	}
	sealed, err := podfiles.Join(func(i int) (string, error) {
		out, err := sdkOf(t, s).Secrets.GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: &names[i]})
		if err != nil {
			return "", err
		}
		return *out.SecretString, nil
	})
	if err != nil {
		return nil
	}
	return openedPayload(t, key, name, sealed)
}

// openedPayload is a payload as it is stored.
func openedPayload(t *testing.T, key, name string, sealed []byte) *podfiles.Payload {
	t.Helper()
	packed, err := podfiles.Open(key, name, sealed)
	must(t, err)
	p, err := podfiles.Unpack(packed)
	must(t, err)
	return &p
}

func puts(s *stub.Server) int { return s.Calls()["PutSecretValue"] + s.Calls()["CreateSecret"] }

// Files that changed reach the secret that the pod's agent reads, whichever process
// launched it; what is as it was costs no write.
func TestFilesAreRefreshed(t *testing.T) {
	rich(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		spec := richSpec("a", 0)
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		time.Sleep(10 * time.Second)
		if got := fmt.Sprint(storedFiles(t, s)); got != "map[v1/token:"+canaryToken+"-of-a]" {
			t.Fatalf("at the launch: %s", got)
		}
		for name, b := range map[string]backend.Backend{
			"the process that launched it": b, "a new one": open(t, richConfig(s)),
		} {
			_, err := b.Pods.List(t.Context())
			must(t, err)
			before := puts(s)
			must(t, b.Refresh.Refresh(t.Context(), spec.Ref(), spec.Volumes))
			if n := puts(s) - before; n != 0 {
				t.Errorf("%s: %d writes of nothing new", name, n)
			}
		}
		again := open(t, richConfig(s))
		_, err := again.Pods.List(t.Context())
		must(t, err)
		config := spec.Volumes[0]
		config.Files = []backend.File{{Path: "app.conf", Data: []byte("x=2"), Mode: 0o644}}
		must(t, again.Refresh.Refresh(t.Context(), spec.Ref(), []backend.VolumeSpec{config}))
		if got := fmt.Sprint(storedFiles(t, s)); got != "map[v0/app.conf:x=2 v1/token:"+canaryToken+"-of-a]" {
			t.Errorf("a changed ConfigMap: %s", got)
		}
		token := spec.Volumes[1]
		token.Files = []backend.File{{Path: "token", Data: []byte("renewed"), Mode: 0o600}}
		must(t, b.Refresh.Refresh(t.Context(), spec.Ref(), []backend.VolumeSpec{token}))
		// Back to what it was launched with: that must be written too.
		must(t, again.Refresh.Refresh(t.Context(), spec.Ref(), spec.Volumes[:1]))
		if got := fmt.Sprint(storedFiles(t, s)); got != "map[v0/app.conf:x=1 v1/token:renewed]" {
			t.Errorf("a renewed token, and the ConfigMap as it was: %s", got)
		}
		text := fmt.Sprintf("%+v%+v", s.Definitions(), s.TaskInfos())
		if strings.Contains(text, "x=2") || strings.Contains(text, canaryToken) {
			t.Error("contents are in a definition or an override")
		}
	})
}

// A pod that shares all its files gets a secret of its own when they change, and not
// before; it goes with the pod.
func TestSharedFilesAreRefreshed(t *testing.T) {
	rich(t, stub.Config{}, func(t *testing.T, s *stub.Server, b backend.Backend) {
		spec := richSpec("a", 0)
		spec.Volumes = spec.Volumes[:1]
		spec.Pod.Spec.Volumes = spec.Pod.Spec.Volumes[:1]
		spec.Containers[0].Container.VolumeMounts = spec.Containers[0].Container.VolumeMounts[:1]
		must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
		time.Sleep(10 * time.Second)
		if got := kinds(s); !strings.HasSuffix(got, " 0 pod") {
			t.Errorf("at the launch: %s", got)
		}
		changed := spec.Volumes[0]
		changed.Files = []backend.File{{Path: "app.conf", Data: []byte("x=2"), Mode: 0o644}}
		must(t, b.Refresh.Refresh(t.Context(), spec.Ref(), []backend.VolumeSpec{changed}))
		if got := fmt.Sprint(storedFiles(t, s)); got != "map[v0/app.conf:x=2]" {
			t.Error(got)
		}
		changed.Files = []backend.File{{Path: "app.conf", Data: []byte(strings.Repeat(canary, 1)), Mode: 0o644}, {
			Path: "big", Data: noise(200_000), Mode: 0o644,
		}}
		err := b.Refresh.Refresh(t.Context(), spec.Ref(), []backend.VolumeSpec{changed})
		wantClass(t, err, "Invalid")
		if strings.Contains(err.Error(), canary) {
			t.Errorf("%v", err)
		}
		must(t, b.Pods.Stop(t.Context(), spec.Ref(), 30*time.Second))
		for err == nil || !errors.Is(err, backend.ErrNotFound) {
			time.Sleep(time.Second)
			err = b.Pods.Remove(t.Context(), spec.Ref())
		}
		if got := kinds(s); !strings.HasSuffix(got, " 0 pod") {
			t.Errorf("after the pod: %s", got)
		}
		wantClass(t, b.Refresh.Refresh(t.Context(), spec.Ref(), spec.Volumes), "NotFound")
	})
}

// noise does not compress.
func noise(n int) []byte {
	out, state := make([]byte, n), uint32(1)
	for i := range out {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		out[i] = byte(state)
	}
	return out
}

// tokenOf is a token as the API server signs it, that lives for so long from now.
func tokenOf(life time.Duration) string {
	now := time.Now()
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d}`, now.Unix(), now.Add(life).Unix())
	return "eyJhIjoxfQ." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// expiryOf is when such a token ends.
func expiryOf(t *testing.T, token string) time.Time {
	t.Helper()
	var claims struct {
		Expires int64 `json:"exp"`
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	must(t, err)
	must(t, json.Unmarshal(text, &claims))
	return time.Unix(claims.Expires, 0)
}

// A token of 600 seconds, the shortest there is, lives on for days, whatever else changes
// and whichever process renews it: Secrets Manager's quota of versions is kept. The pod's
// secrets go with it.
func TestTheShortestTokenLivesOn(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	rich(t, stub.Config{}, func(t *testing.T, s *stub.Server, _ backend.Backend) {
		late := shortestToken(t, s, richConfig(s))
		of := 0
		for _, secret := range s.Secrets() {
			if !strings.Contains(secret.Name, "/pod/") {
				continue
			}
			of++
			if n := len(secret.Written); n > 100 {
				t.Errorf("%s has %d versions", secret.Name, n)
			}
		}
		t.Logf(
			"%d secrets, %d PutSecretValue calls in 26 h; the ConfigMap was not the newest at %d of 390 looks", of,
			s.Calls()["PutSecretValue"], late,
		)
		if of != 3 {
			t.Errorf("%d secrets", of)
		}
		gone(t, open(t, richConfig(s)), richSpec("a", 0).Ref())
		if got := kinds(s); !strings.HasSuffix(got, " 0 pod") {
			t.Errorf("after the pod: %s", got)
		}
	})
}

// shortestToken runs a pod with such a token for 26 hours in which its ConfigMap changes
// every 8 minutes, and returns at how many of 390 looks the ConfigMap was not the newest.
func shortestToken(t *testing.T, s *stub.Server, cfg Config) (late int) {
	t.Helper()
	b := open(t, cfg)
	const life = 600 * time.Second
	spec := richSpec("a", 0)
	spec.Pod.Spec.Volumes[1].Projected.Sources[0].ServiceAccountToken.ExpirationSeconds = new(int64(600))
	config, token := &spec.Volumes[0], &spec.Volumes[1]
	token.Files[0].Data = []byte(tokenOf(life))
	must(t, b.Pods.Launch(t.Context(), t.Context(), spec))
	time.Sleep(10 * time.Second)
	renewed, begun := time.Now(), time.Now()
	for minute := 0; time.Since(begun) < 26*time.Hour; minute += 4 {
		time.Sleep(4 * time.Minute)
		if minute%400 == 0 { // another process goes on
			b = open(t, cfg)
			_, err := b.Pods.List(t.Context())
			must(t, err)
		}
		if minute%8 == 0 {
			config.Files = []backend.File{{Path: "app.conf", Data: fmt.Appendf(nil, "x=%d", minute), Mode: 0o644}}
		}
		if time.Since(renewed) >= life*4/5 {
			token.Files = []backend.File{{Path: "token", Data: []byte(tokenOf(life)), Mode: 0o600}}
			renewed = time.Now()
		}
		if err := b.Refresh.Refresh(t.Context(), spec.Ref(), spec.Volumes); err != nil {
			wantClass(t, err, "Throttled")
		}
		files := storedFiles(t, s)
		if left := time.Until(expiryOf(t, files["v1/token"])); left < 30*time.Second {
			t.Fatalf("after %s the token has %s left", time.Since(begun), left)
		}
		if files["v0/app.conf"] != string(config.Files[0].Data) {
			late++
		}
	}
	return late
}
