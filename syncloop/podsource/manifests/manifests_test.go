package manifests

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

const webPod = `
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: app
    image: nginx
`

func decodeFile(t *testing.T, manifest string) (*corev1.Pod, error) {
	t.Helper()
	pods, err := decode([]byte(manifest), origin{sourceFile, "/etc/m/web.yaml", "Node-1"})
	if len(pods) == 0 {
		return nil, err
	}
	return pods[0], err
}

// A static pod is what a kubelet makes of its manifest.
func TestStaticPod(t *testing.T) {
	pod, err := decodeFile(t, webPod)
	if err != nil {
		t.Fatal(err)
	}
	if pod.Name != "web-node-1" || pod.Namespace != "default" || pod.Spec.NodeName != "Node-1" {
		t.Errorf("%s/%s on %s", pod.Namespace, pod.Name, pod.Spec.NodeName)
	}
	if pod.Annotations[AnnotationSource] != "file" || pod.Annotations[AnnotationHash] != string(pod.UID) ||
		len(pod.UID) != 32 {
		t.Errorf("uid %q, annotations %v", pod.UID, pod.Annotations)
	}
	if len(pod.Spec.Tolerations) != 1 || pod.Spec.Tolerations[0].Effect != corev1.TaintEffectNoExecute {
		t.Errorf("tolerations %v", pod.Spec.Tolerations)
	}
	c := pod.Spec.Containers[0]
	if pod.Spec.RestartPolicy != "Always" || c.ImagePullPolicy != "Always" || pod.Status.Phase != "Pending" {
		t.Errorf("%+v", pod)
	}
}

// Its UID is the hash of its contents, on its node.
func TestUIDOfAStaticPod(t *testing.T) {
	pod, err := decodeFile(t, webPod)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := decodeFile(t, webPod)
	other, _ := decodeFile(t, strings.Replace(webPod, "image: nginx", "image: nginx:2", 1))
	elsewhere, _ := decode([]byte(webPod), origin{sourceFile, "/etc/m/web.yaml", "node-2"})
	if again.UID != pod.UID || other.UID == pod.UID || elsewhere[0].UID == pod.UID {
		t.Errorf("UIDs %s: the same %s, other contents %s, another node %s", pod.UID, again.UID, other.UID, elsewhere[0].UID)
	}
	given, err := decodeFile(t, strings.Replace(webPod, "name: web", "name: web\n  uid: mine", 1))
	if err != nil || given.UID != "mine" {
		t.Errorf("a given UID became %v, %v", given, err)
	}
}

// What static pods cannot have is refused by its field.
func TestRefusedManifests(t *testing.T) {
	spec := func(more string) string { return webPod + more }
	app := func(more string) string { return webPod + "    " + more + "\n" }
	for want, manifest := range map[string]string{
		"spec.serviceAccountName":    spec("  serviceAccountName: robot\n"),
		"spec.imagePullSecrets":      spec("  imagePullSecrets: [{name: pull}]\n"),
		"spec.runtimeClassName":      spec("  runtimeClassName: kata\n"),
		"spec.priorityClassName":     spec("  priorityClassName: high\n"),
		"spec.volumes[0]: Forbidden": spec("  volumes: [{name: v, secret: {secretName: s}}]\n"),
		"spec.volumes[0]": spec(
			"  volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]\n",
		),
		"spec.containers[0].envFrom[0]":             app("envFrom: [{secretRef: {name: s}}]"),
		"spec.containers[0].env[0].valueFrom":       app("env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: k}}}]"),
		"spec.containers[0].volumeMounts[0].name":   app("volumeMounts: [{name: none, mountPath: /x}]"),
		"spec.containers[0].resources.requests":     app("resources: {requests: {cpu: 2}, limits: {cpu: 1}}"),
		"spec.restartPolicy":                        spec("  restartPolicy: Sometimes\n"),
		`unknown field "spec.containers[0].imagee"`: app("imagee: x"),
		"metadata.name":                             strings.Replace(webPod, "name: web", "labels: {}", 1),
		"want a Pod":                                "apiVersion: v1\nkind: Secret\n",
		"spec.containers: Required value":           "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n",
		"read manifest /etc/m/web.yaml":             "{",
		"want one Pod in a file":                    "apiVersion: v1\nkind: PodList\nitems: []\n",
	} {
		pod, err := decodeFile(t, manifest)
		if pod != nil || err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "/etc/m/web.yaml") {
			t.Errorf("want %q of the file, got %v, %v", want, pod, err)
		}
	}
}

// follow runs a source on a directory in virtual time; f changes files and reads what was
// handed on last.
func follow(t *testing.T, f func(dir string, names func() []string, problems func() []string)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var pods []*corev1.Pod
		var problems []string
		s := New(Config{
			Path: dir, Node: "n", Changed: func(now []*corev1.Pod, _ bool) { mu.Lock(); defer mu.Unlock(); pods = now },
			Problem: func(err error) { mu.Lock(); defer mu.Unlock(); problems = append(problems, err.Error()) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		f(dir, func() (names []string) {
			time.Sleep(2 * filePeriod)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			for _, p := range pods {
				names = append(names, p.Name)
			}
			return names
		}, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(problems) })
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func write(t *testing.T, dir, name, contents string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(contents), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The files of a directory are followed; what is no manifest harms no other.
func TestDirectory(t *testing.T) {
	follow(t, func(dir string, names func() []string, problems func() []string) {
		if got := names(); len(got) > 0 {
			t.Errorf("an empty directory has %v", got)
		}
		write(t, dir, "web.yaml", webPod)
		write(t, dir, ".hidden.yaml", strings.Replace(webPod, "name: web", "name: hidden", 1))
		if err := errors.Join(
			os.Mkdir(filepath.Join(dir, "sub"), 0o700), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
		); err != nil {
			t.Fatal(err)
		}
		if got := names(); !slices.Equal(got, []string{"web-n"}) || len(problems()) > 0 {
			t.Errorf("%v, %v", got, problems())
		}
		write(t, dir, "bad.yaml", "{")
		write(t, dir, "big.yaml", strings.Repeat("#", maxManifest+1))
		write(t, dir, "db.yaml", strings.Replace(webPod, "name: web", "name: db", 1))
		write(t, dir, "web2.yaml", webPod)
		if got := names(); !slices.Equal(got, []string{"db-n", "web-n"}) {
			t.Errorf("%v", got)
		}
		told := strings.Join(problems(), "\n")
		for _, want := range []string{"bad.yaml", "big.yaml has more than", "web2.yaml: another file has pod default/web-n"} {
			if !strings.Contains(told, want) {
				t.Errorf("%q is not told: %s", want, told)
			}
		}
		names()
		if len(problems()) != 1 {
			t.Errorf("the same is told again: %q", problems())
		}
		if err := os.Remove(filepath.Join(dir, "db.yaml")); err != nil {
			t.Fatal(err)
		}
		if got := names(); !slices.Equal(got, []string{"web-n"}) {
			t.Errorf("after the file went: %v", got)
		}
		if err := os.Rename(dir, dir+"-away"); err != nil {
			t.Fatal(err)
		}
		if got := names(); len(got) > 0 {
			t.Errorf("without the directory: %v", got)
		}
		if err := os.Rename(dir+"-away", dir); err != nil {
			t.Fatal(err)
		}
	})
}

// A URL gives one pod or a list; while it does not answer its pods stay.
func TestURL(t *testing.T) {
	reply, status := "", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" {
			t.Errorf("header %v", r.Header)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(reply))
	}))
	defer server.Close()
	var pods []*corev1.Pod
	var problem error
	s := New(Config{
		URL: server.URL, Header: http.Header{"Authorization": {"Bearer x"}}, Node: "n",
		Changed: func(now []*corev1.Pod, _ bool) { pods = now }, Problem: func(err error) { problem = err },
	})
	s.files.done = true
	look := func() (names []string) {
		s.hand(s.readURL(t.Context()))
		for _, p := range pods {
			names = append(names, p.Name+" "+p.Annotations[AnnotationSource])
		}
		return names
	}
	list := "apiVersion: v1\nkind: PodList\nitems:\n- {metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}\n" +
		"- {metadata: {name: b}, spec: {containers: [{name: c, image: i}]}}\n"
	for _, step := range []struct {
		reply   string
		status  int
		want    []string
		problem string
	}{
		{webPod, http.StatusInternalServerError, nil, "500"},
		{webPod, http.StatusOK, []string{"web-n http"}, ""},
		{"", http.StatusNotFound, []string{"web-n http"}, "404"},
		{list, http.StatusOK, []string{"a-n http", "b-n http"}, ""},
		{strings.Replace(list, "name: b", "name: B", 1), http.StatusOK, []string{"a-n http"}, "metadata.name"},
		{"", http.StatusOK, nil, "zero-length"},
	} {
		reply, status, problem = step.reply, step.status, nil
		got := look()
		if !slices.Equal(got, step.want) || (problem != nil) != (step.problem != "") ||
			problem != nil && !strings.Contains(problem.Error(), step.problem) {
			t.Errorf("%d %.40q: %v, %v", step.status, step.reply, got, problem)
		}
	}
}

// Pods of files and of a URL run together, whichever was read first. Of two with the same name
// or UID those of files stay, and the others are told; when they go, the URL's take their place.
func TestFilesAndURL(t *testing.T) {
	reply, status := "", http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(reply))
	}))
	defer server.Close()
	dir := t.TempDir()
	var handed, problems []string
	s := New(Config{
		Path: dir, URL: server.URL, Node: "n", Problem: func(err error) { problems = append(problems, err.Error()) },
		Changed: func(pods []*corev1.Pod, whole bool) {
			handed = nil
			for _, p := range pods {
				handed = append(handed, p.Name+" "+p.Annotations[AnnotationSource])
			}
			if !whole {
				handed = append(handed, "and maybe more")
			}
		},
	})
	named := func(name, uid string) string {
		return strings.Replace(webPod, "name: web", "name: "+name+"\n  uid: "+uid, 1)
	}
	for _, step := range []struct {
		what, reply string
		status      int
		// files is what is written, by name; "" removes the file.
		files    map[string]string
		want     []string
		problems []string
	}{
		{
			"the URL does not answer", "", http.StatusServiceUnavailable,
			map[string]string{"web.yaml": webPod},
			[]string{"web-n file", "and maybe more"},
			[]string{"503"},
		},
		{"both are read", named("other", "o"), http.StatusOK, nil, []string{"web-n file", "other-n http"}, nil},
		{
			"both have a name", webPod, http.StatusOK, nil,
			[]string{"web-n file"},
			[]string{"manifest of pod default/web-n, UID "},
		},
		{"the file goes", webPod, http.StatusOK, map[string]string{"web.yaml": ""}, []string{"web-n http"}, nil},
		{
			"both have a UID", named("other", "mine"), http.StatusOK,
			map[string]string{"mine.yaml": named("web", "mine")},
			[]string{"web-n file"},
			[]string{"default/other-n, UID mine, at the URL is not used: pod default/web-n, UID mine"},
		},
		{
			"two files have it", named("other", "o"), http.StatusOK,
			map[string]string{"second.yaml": named("second", "mine")},
			[]string{"web-n file", "other-n http"},
			[]string{"second.yaml: another file has pod default/second-n, or its UID mine"},
		},
		{
			"the URL is away again", "", http.StatusServiceUnavailable,
			map[string]string{"second.yaml": "", "mine.yaml": ""},
			[]string{"other-n http"},
			[]string{"503"},
		},
	} {
		reply, status, problems = step.reply, step.status, nil
		for name, contents := range step.files {
			if contents != "" {
				write(t, dir, name, contents)
			} else if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		changed := s.readFiles(t.Context())
		s.hand(s.readURL(t.Context()) || changed)
		told := strings.Join(problems, "\n")
		if !slices.Equal(handed, step.want) || len(problems) != len(step.problems) {
			t.Errorf("%s: %q, want %q; told %q", step.what, handed, step.want, problems)
		}
		for _, want := range step.problems {
			if !strings.Contains(told, want) {
				t.Errorf("%s: %q is not told: %q", step.what, want, told)
			}
		}
	}
}
