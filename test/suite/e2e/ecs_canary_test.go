package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/fakeaws/ecsprocess"
	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/wait"
	"github.com/burstlet/burstlet/test/parts/images"
)

// taskImageRef is an image that has one program and no shell.
const taskImageRef = images.TaskRef

// TestCanaryOnECS: values that only the pod may know are nowhere but in it: not in
// a definition, an override, a tag, a log, an Event, a metric, or what burstlet
// writes; and not where a secret of the pod's own is kept.
func TestCanaryOnECS(t *testing.T) {
	lane.From(t, lane.Gate)
	turn(t, waiter, 100*time.Second)
	s := newCloud(t, "canary", "refresh: 5s")
	l := s.life(t, "canary")
	var canaries []string
	value := func() string {
		v := randomText(t)
		canaries = append(canaries, v)
		return v
	}
	env, from, file := value(), value(), value()
	l.secret("env", map[string]string{"key": env})
	l.secret("from", map[string]string{"FROM": from})
	l.secret("file", map[string]string{"key": file})
	l.pullSecret("registry")
	canaries = append(canaries, s.password)
	const sums = `for v in "$ENV" "$FROM" "$(cat /file/key)"; do printf %s "$v" | sha256sum | cut -d' ' -f1; done`
	l.create(l.pod(shell(sums), mount(
		"file", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "file"}},
	), func(pod *corev1.Pod) {
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{object("registry")}
		c := &pod.Spec.Containers[0]
		c.Image = privateRef
		c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: object("from")}}}
		c.Env = []corev1.EnvVar{{Name: "ENV", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: object("env"), Key: "key",
		}}}}
		c.ReadinessProbe = every(1, 1, corev1.ProbeHandler{Exec: run("test -n \"$ENV\" -a -n \"$FROM\"")})
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: run("true")}}
	}))
	l.until("Ready", isReady)
	for _, canary := range []string{env, from, file} { // the pod itself has them
		l.says("app", fmt.Sprintf("%x", sha256.Sum256([]byte(canary))))
	}
	token := l.kubectl("", "exec", "subject", "--", "cat", serviceAccountDir+"token")
	if token.code != 0 || len(token.out) < 100 {
		t.Fatalf("the token has %d bytes: %s", len(token.out), token.err)
	}
	canaries = append(canaries, token.out)

	changed := value()
	_, err := s.c.client.CoreV1().Secrets(l.namespace).Update(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "file"}, StringData: map[string]string{"key": changed},
	}, metav1.UpdateOptions{})
	l.must(err)
	wait.For(t, patience, "the changed file arrives", func() error {
		got := l.kubectl("", "exec", "subject", "--", "cat", "/file/key")
		if got.out != changed {
			return fmt.Errorf("exit code %d, it has not", got.code)
		}
		return nil
	})
	uid := l.until("Ready", isReady).UID
	s.searchFor(t, canaries, string(uid))
	s.deleteAll(t)
	s.searchFor(t, canaries, string(uid))
}

// searchFor looks for values, plain and in base64, wherever somebody else may read.
// What is known to all shows that it finds what is there.
func (s *cloud) searchFor(t *testing.T, canaries []string, known string) {
	t.Helper()
	searched, found := 0, 0
	for where, text := range s.readable(t) {
		searched += len(text)
		if strings.Contains(text, known) {
			found++
		}
		for i, canary := range canaries {
			for _, form := range forms(canary) {
				if strings.Contains(text, form) {
					t.Errorf("canary %d is in %s", i, where)
				}
			}
		}
	}
	if found < 3 { // its task, an Event, burstlet's log
		t.Errorf("%s is found at %d places only", known, found)
	}
	t.Logf("%d bytes searched", searched)
}

// forms are a value as it is, and what base64 makes of it wherever it stands.
func forms(value string) []string {
	all := []string{value}
	for shift := range 3 {
		padded := strings.Repeat("x", shift) + value
		padded = padded[:len(padded)/3*3]
		// What the bytes before it have a part in is left out.
		encoded := base64.StdEncoding.EncodeToString([]byte(padded))[4*min(shift, 1):]
		all = append(all, encoded, strings.NewReplacer("+", "-", "/", "_").Replace(encoded))
	}
	return slices.Compact(all)
}

// readable is everything that somebody other than the pod may read, by where it is.
func (s *cloud) readable(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"burstlet's log": s.n.log.String()}
	report, err := s.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	launched, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	all["what tasks were launched with"] = string(launched)
	s.readDefinitions(t, all)
	s.readTasks(t, all)
	s.readLogs(t, all)
	s.readSecrets(t, all)
	s.readKubernetes(t, all)
	return all
}

// call asks ECS, CloudWatch Logs or Secrets Manager, and returns the answer as it is.
func (s *cloud) call(t *testing.T, target, service string, request, answer any) string {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Process.URL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set(
		"Authorization",
		"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/"+service+
			"/aws4_request, SignedHeaders=host, Signature=0",
	)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, out)
	}
	if err == nil && answer != nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	return string(out)
}

const (
	ecsTarget     = "AmazonEC2ContainerServiceV20141113."
	logsTarget    = "Logs_20140328."
	secretsTarget = "secretsmanager."
)

type members = map[string]any

func (s *cloud) readDefinitions(t *testing.T, all map[string]string) {
	t.Helper()
	found := 0
	for _, status := range []string{"ACTIVE", "INACTIVE"} {
		var list struct{ TaskDefinitionArns []string }
		s.call(t, ecsTarget+"ListTaskDefinitions", "ecs", members{"status": status}, &list)
		for _, arn := range list.TaskDefinitionArns {
			found++
			all["definition "+arn] = s.call(t, ecsTarget+"DescribeTaskDefinition", "ecs",
				members{"taskDefinition": arn, "include": []string{"TAGS"}}, nil)
		}
	}
	if found == 0 {
		t.Error("there are no definitions")
	}
}

func (s *cloud) readTasks(t *testing.T, all map[string]string) {
	t.Helper()
	found := 0
	for _, status := range []string{"RUNNING", "STOPPED"} {
		var list struct{ TaskArns []string }
		s.call(t, ecsTarget+"ListTasks", "ecs", members{"desiredStatus": status}, &list)
		for _, arn := range list.TaskArns {
			found++
			all["task "+arn] = s.call(
				t, ecsTarget+"DescribeTasks", "ecs", members{"tasks": []string{arn}, "include": []string{"TAGS"}}, nil,
			)
		}
	}
	if found == 0 {
		t.Error("there are no tasks")
	}
}

// streams calls f with every log stream.
func (s *cloud) streams(t *testing.T, f func(name, content string)) {
	t.Helper()
	var token string
	for {
		request := members{"logGroupName": ecsprocess.LogGroup}
		if token != "" {
			request["nextToken"] = token
		}
		var list struct {
			LogStreams []struct{ LogStreamName string }
			NextToken  string
		}
		s.call(t, logsTarget+"DescribeLogStreams", "logs", request, &list)
		for _, stream := range list.LogStreams {
			f(stream.LogStreamName, s.events(t, stream.LogStreamName))
		}
		if token = list.NextToken; token == "" {
			return
		}
	}
}

// events is all that is in a log stream, a line each.
func (s *cloud) events(t *testing.T, stream string) string {
	t.Helper()
	var text strings.Builder
	token := ""
	for {
		request := members{"logGroupName": ecsprocess.LogGroup, "logStreamName": stream, "startFromHead": true}
		if token != "" {
			request["nextToken"] = token
		}
		var page struct {
			Events           []struct{ Message string }
			NextForwardToken string
		}
		s.call(t, logsTarget+"GetLogEvents", "logs", request, &page)
		for _, event := range page.Events {
			text.WriteString(event.Message + "\n")
		}
		if page.NextForwardToken == token {
			return text.String()
		}
		token = page.NextForwardToken
	}
}

func (s *cloud) readLogs(t *testing.T, all map[string]string) {
	t.Helper()
	found := 0
	s.streams(t, func(name, content string) {
		found++
		all["log "+name] = content
	})
	if found == 0 {
		t.Error("there are no logs")
	}
}

// readSecrets reads what is said of secrets, and the contents of those that are a
// pod's own: they are encrypted by what only its task has.
func (s *cloud) readSecrets(t *testing.T, all map[string]string) {
	t.Helper()
	report, err := s.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, secret := range report.Secrets { // a listing would not show them yet
		if secret.Deleted {
			continue
		}
		all["the description of secret "+secret.Name] = s.call(
			t, secretsTarget+"DescribeSecret", "secretsmanager", members{"SecretId": secret.Name}, nil,
		)
		found++
		if strings.Contains(secret.Name, "/pod/") {
			all["secret "+secret.Name] = s.call(
				t, secretsTarget+"GetSecretValue", "secretsmanager", members{"SecretId": secret.Name}, nil,
			)
		}
	}
	if found == 0 {
		t.Error("there are no secrets")
	}
}

// readKubernetes reads Events, statuses and metrics.
func (s *cloud) readKubernetes(t *testing.T, all map[string]string) {
	t.Helper()
	events, err := s.c.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events.Items {
		all["event "+events.Items[i].Name] = events.Items[i].String()
	}
	pods, err := s.c.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		all["pod "+pods.Items[i].Name] = pods.Items[i].String()
	}
	who := s.reader(t)
	for _, path := range []string{"/metrics", "/metrics/resource", "/metrics/probes"} {
		code, body := s.n.ask(t, who, endpoint{method: http.MethodGet, path: path})
		if code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
		all[path] = body
	}
}

// reader is somebody who may read metrics.
func (s *cloud) reader(t *testing.T) caller {
	t.Helper()
	const namespace, account = metav1.NamespaceDefault, "metrics-reader"
	_, err := s.c.client.RbacV1().ClusterRoles().Get(t.Context(), namespace+"-"+account, metav1.GetOptions{})
	if err != nil {
		_, err := s.c.client.CoreV1().ServiceAccounts(namespace).Create(t.Context(),
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.c.allow(
			t, namespace, account,
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/metrics"}, Verbs: []string{"get"}},
		)
	}
	who := caller{name: account, known: true, send: bearer(insecureTransport(t), s.c.token(t, namespace, account))}
	wait.For(t, patience, "the reader of metrics has its right", func() error {
		if code, body := s.n.ask(t, who, endpoint{method: http.MethodGet, path: "/metrics"}); code != http.StatusOK {
			return fmt.Errorf("%d: %.200s", code, body)
		}
		return nil
	})
	return who
}

// wrote wants lines in this order in the log of container app of a pod, which may be
// gone.
func (s *cloud) wrote(t *testing.T, pod *corev1.Pod, lines ...string) {
	t.Helper()
	report, err := s.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var task string
	for _, info := range report.Tasks {
		if info.Tags["burstlet/uid"] == string(pod.UID) || strings.Contains(fmt.Sprint(info.Environment), string(pod.UID)) {
			task = info.ARN[strings.LastIndex(info.ARN, "/")+1:]
		}
	}
	if task == "" {
		t.Fatalf("no task of pod %s", pod.Name)
	}
	wait.For(t, patience, fmt.Sprintf("the log has %q", lines), func() error {
		var have []string
		s.streams(t, func(name, content string) {
			if strings.HasSuffix(name, "/app/"+task) {
				have = strings.Split(content, "\n")
			}
		})
		rest := have
		for _, line := range lines {
			i := slices.Index(rest, line)
			if i < 0 {
				return fmt.Errorf("%q", have)
			}
			rest = rest[i+1:]
		}
		return nil
	})
}
