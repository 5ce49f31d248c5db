package intask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
	"github.com/burstlet/burstlet/test/kit/need"
)

// around is what a task sees: the endpoints of ECS and Secrets Manager, without a
// network, so that tests run in virtual time.
type around struct {
	mu      sync.Mutex
	secrets map[string]string
	// failures are answers that come first.
	failures []int
	calls    int
	status   map[string]string // of containers
	down     bool              // the metadata endpoint
	// told are bodies of messages; while deaf is not 0, it is the status of answers.
	told []string
	deaf int
}

func (a *around) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch r.URL.Host {
	case "169.254.170.2":
		return answer(
			http.StatusOK, map[string]string{"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "not-a-secret", "Token": "t"},
		)
	case "metadata":
		if a.down {
			return nil, io.ErrUnexpectedEOF
		}
		return a.metadata()
	case "secretsmanager.eu-central-1.amazonaws.com":
		return a.secret(r)
	case "sqs.eu-central-1.amazonaws.com":
		return a.message(r)
	default:
		return nil, fmt.Errorf("no host %s", r.URL.Host)
	}
}

func (a *around) metadata() (*http.Response, error) {
	type container struct{ Name, KnownStatus string }
	var cs []container
	for name, status := range a.status {
		cs = append(cs, container{name, status})
	}
	return answer(http.StatusOK, map[string]any{"TaskARN": "arn:task", "Containers": cs})
}

func (a *around) message(r *http.Request) (*http.Response, error) {
	auth := r.Header.Get("Authorization")
	if r.Header.Get("X-Amz-Target") != "AmazonSQS.SendMessage" ||
		!strings.Contains(auth, "/eu-central-1/sqs/aws4_request") {
		return answer(http.StatusBadRequest, map[string]string{"__type": "IncompleteSignature"})
	}
	a.calls++
	if a.deaf != 0 {
		return answer(a.deaf, map[string]string{"__type": "com.amazon.coral.service#AccessDeniedException"})
	}
	var in struct{ QueueURL, MessageBody string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	a.told = append(a.told, in.MessageBody)
	return answer(http.StatusOK, map[string]string{"MessageId": "1"})
}

func (a *around) secret(r *http.Request) (*http.Response, error) {
	a.calls++
	if len(a.failures) > 0 {
		status := a.failures[0]
		a.failures = a.failures[1:]
		return answer(status, map[string]string{"__type": "InternalServiceError", "message": "try again"})
	}
	auth := r.Header.Get("Authorization")
	if r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" || !strings.Contains(auth, "AKIDEXAMPLE/") ||
		!strings.Contains(auth, "/eu-central-1/secretsmanager/aws4_request") || r.Header.Get("X-Amz-Security-Token") != "t" {
		return answer(http.StatusBadRequest, map[string]string{"__type": "IncompleteSignature"})
	}
	var in struct {
		ID string `json:"SecretId"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	value, ok := a.secrets[in.ID]
	if !ok {
		return answer(http.StatusBadRequest, map[string]string{"__type": "ResourceNotFoundException"})
	}
	return answer(http.StatusOK, map[string]string{"SecretString": value})
}

func answer(status int, v any) (*http.Response, error) {
	b, err := json.Marshal(v)
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(b)), Header: http.Header{}}, err
}

// task is one with some environment, its volumes below a directory of the test,
// and what it logs.
func task(t *testing.T, a *around, env map[string]string, volumes ...string) (Task, string, *bytes.Buffer) {
	dir := t.TempDir()
	for _, v := range volumes {
		if err := os.Mkdir(filepath.Join(dir, v), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	said := &bytes.Buffer{}
	return Task{
		Env:     func(name string) string { return env[name] },
		Volumes: dir, HTTPClient: &http.Client{Transport: a}, Log: log.New(said, "", 0),
	}, dir, said
}

// sharedEnv is the environment with a payload as the shape shares it.
func sharedEnv(t *testing.T, p podfiles.Payload) map[string]string {
	packed, err := p.Pack()
	must(t, err)
	parts, err := podfiles.Split(packed)
	must(t, err)
	env := map[string]string{}
	for i, part := range parts {
		env[FilesEnv(i)] = part
	}
	return env
}

// ownPayload stores a payload as a pod's own, and returns the environment.
func ownPayload(t *testing.T, a *around, p podfiles.Payload) map[string]string {
	packed, err := p.Pack()
	must(t, err)
	n, err := podfiles.Parts(len(packed) + 16)
	must(t, err)
	name, key := fmt.Sprintf("burstlet/n/pod/u/0.abc.%d", n), podfiles.NewKey()
	sealed, err := podfiles.Seal(key, name, packed)
	must(t, err)
	parts, err := podfiles.Split(sealed)
	must(t, err)
	names, err := podfiles.PartNames(name)
	must(t, err)
	a.secrets = map[string]string{}
	for i, part := range parts {
		a.secrets[names[i]] = part
	}
	return map[string]string{
		EnvPayload: name, EnvPayloadKey: key,
		"AWS_REGION": "eu-central-1", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/x",
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

func TestSharedAndOwnFilesAreWritten(t *testing.T) {
	a := &around{}
	env := sharedEnv(t, podfiles.Payload{Volumes: []podfiles.Volume{{Name: "config", Files: []podfiles.File{
		{Path: "app.conf", Data: []byte("x=1\n"), Mode: 0o640}, {Path: "sub/deep", Data: []byte("d"), Mode: 0o444},
	}}}})
	for k, v := range ownPayload(t, a, podfiles.Payload{Volumes: []podfiles.Volume{{Name: "token", Files: []podfiles.File{
		{Path: "token", Data: []byte("ey..."), Mode: 0o600},
	}}}}) {
		env[k] = v
	}
	task, dir, _ := task(t, a, env, "config", "token")
	for range 2 { // a container that was killed is run again
		must(t, task.Materialize(t.Context()))
	}
	if got := read(t, filepath.Join(dir, "config", "app.conf")) + read(t, filepath.Join(dir, "config/sub/deep")) +
		read(t, filepath.Join(dir, "token/token")); got != "x=1\ndey..." {
		t.Errorf("%q", got)
	}
	for path, want := range map[string]fs.FileMode{
		"config/app.conf": 0o640, "config/sub/deep": 0o444, "token/token": 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, path))
		must(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s: %o, want %o", path, info.Mode().Perm(), want)
		}
	}
	if to, err := os.Readlink(filepath.Join(dir, "config/app.conf")); err != nil || to != "..data/app.conf" {
		t.Errorf("it is no link into ..data, as the kubelet makes it: %q, %v", to, err)
	}
}

func TestOwnersAndGroupsAreSet(t *testing.T) {
	need.Root(t)
	env := sharedEnv(t, podfiles.Payload{Volumes: []podfiles.Volume{{Name: "config", Group: new(int64(2000)), Files: []podfiles.File{
		{Path: "f", Data: []byte("x"), Mode: 0o600, UID: new(int64(1000))},
	}}}})
	env[EnvDirs] = `[{"name":"scratch","mode":1023},{"name":"group","mode":1535,"gid":3000}]`
	task, dir, _ := task(t, &around{}, env, "config", "scratch", "group")
	must(t, task.Materialize(t.Context()))
	for path, want := range map[string]string{
		"config/f": "-rw-r----- 1000:2000", "scratch": "dtrwxrwxrwx 0:0", "group": "dgrwxrwxrwx 0:3000",
	} {
		if got := owner(t, filepath.Join(dir, path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestSecretsAreAskedForPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &around{failures: []int{500, 400, 500}}
		env := ownPayload(t, a, tokenAt("t", "v"))
		task, dir, _ := task(t, a, env, "token")
		must(t, task.Materialize(t.Context()))
		if read(t, filepath.Join(dir, "token/t")) != "v" || a.calls != 4 {
			t.Errorf("after %d calls", a.calls)
		}
	})
}

func TestWhatCannotWorkSaysWhyWithoutSecrets(t *testing.T) {
	own := func(change func(a *around, env map[string]string)) func(*testing.T, *around) map[string]string {
		return func(t *testing.T, a *around) map[string]string {
			env := ownPayload(t, a, tokenAt("t", "canary"))
			change(a, env)
			return env
		}
	}
	for name, c := range map[string]struct {
		env  func(*testing.T, *around) map[string]string
		want string
	}{
		"the secret is gone": {own(func(a *around, _ map[string]string) { a.secrets = nil }), "ResourceNotFound"},
		"no task role": {own(func(_ *around, env map[string]string) {
			delete(env, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
		}), "backend.ecs.taskRoleARN"},
		"another key": {
			own(func(_ *around, env map[string]string) { env[EnvPayloadKey] = podfiles.NewKey() }), "do not belong together",
		},
		"a path that leaves the volume": {func(t *testing.T, _ *around) map[string]string {
			return sharedEnv(t, tokenAt("../x", "canary"))
		}, "'..'"},
		"a volume that leaves the directory": {func(t *testing.T, _ *around) map[string]string {
			return sharedEnv(t, podfiles.Payload{Volumes: []podfiles.Volume{{Name: "../x"}}})
		}, "no name of a volume"},
		"a volume that is not mounted": {func(t *testing.T, _ *around) map[string]string {
			return sharedEnv(t, podfiles.Payload{Volumes: []podfiles.Volume{{Name: "other"}}})
		}, "volume other"},
		"garbage": {
			func(*testing.T, *around) map[string]string { return map[string]string{FilesEnv(0): "canary"} }, "no header",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &around{}
				task, _, said := task(t, a, c.env(t, a), "token")
				err := task.Materialize(t.Context())
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v, want it to say %q", err, c.want)
				}
				if all := err.Error() + said.String(); strings.Contains(all, "canary") || strings.Contains(all, "not-a-secret") {
					t.Errorf("it tells secrets: %s", all)
				}
			})
		})
	}
}
