package ecslife

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/syncloop"
	"github.com/burstlet/burstlet/syncloop/admit"
	"github.com/burstlet/burstlet/syncloop/podsource"
	"github.com/burstlet/burstlet/syncloop/resolve"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
)

// settle is how long the backends of these tests wait for what may yet appear.
const settle = 2 * time.Minute

// cluster is the API server, and the writer of statuses, of these tests.
type cluster struct {
	t      *testing.T
	server *stub.Server
	change func(*ecs.Config)

	mu     sync.Mutex
	rv     int
	pods   map[string]*corev1.Pod
	events []string
	// phases are those that each pod went through, by name.
	phases map[string][]string
	now    *process // the one that runs
}

func newCluster(t *testing.T, cfg stub.Config) *cluster {
	return &cluster{
		t: t, server: stub.New(cfg), pods: map[string]*corev1.Pod{}, phases: map[string][]string{},
		change: func(*ecs.Config) {},
	}
}

// process is one life of burstlet: an engine and its backend.
type process struct {
	cluster *cluster
	source  *podsource.Source
	engine  *syncloop.Loop
	link    *link
	cancel  context.CancelFunc
	done    chan error
}

// start begins a life; link says when it ends.
func (c *cluster) start(l *link) *process {
	p := &process{cluster: c, link: l, done: make(chan error, 1)}
	l.inner, l.dead = c.server.Client().Transport, make(chan struct{})
	cfg := ecs.Config{
		Config: ecsconfig.Config{
			Region: "us-east-1", Cluster: "default", Subnets: []string{"subnet-a", "subnet-b"},
			SecurityGroups: []string{"sg-a"}, NodeIdentity: "cluster-uid/node", Settle: settle, Endpoint: stub.Endpoint,
		},
		AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "not-a-secret", HTTPClient: &http.Client{Transport: l},
		May: backend.Always,
	}
	c.change(&cfg)
	b, err := ecs.New(context.Background(), cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	p.source = podsource.New(c, func() bool { return true })
	p.engine, err = syncloop.New(syncloop.Config{
		Backend: b, Source: p.source, Status: p, Events: p, Objects: p, Pulls: 5,
		Node: func() syncloop.Node { return nodeOf(b) },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	c.mu.Lock()
	c.now = p
	c.mu.Unlock()
	go func() { p.done <- p.engine.Run(ctx) }()
	go func() { p.done <- b.RunFreely(ctx) }()
	return p
}

// end is its orderly end, or clears up after its death.
func (p *process) end() {
	p.link.die()
	p.cancel()
	for range 2 {
		if err := <-p.done; err != nil {
			p.cluster.t.Error(err)
		}
	}
}

func nodeOf(b backend.Backend) syncloop.Node {
	n := syncloop.Node{Cluster: resolve.Node{Name: "node"}}
	n.Admission = admit.Node{Name: "node", OS: "linux", Allocatable: corev1.ResourceList{
		"cpu": resource.MustParse("1000"), "memory": resource.MustParse("1Ti"), "pods": resource.MustParse("10000"),
	}, Can: admit.AbilitiesOf(b)}
	return n
}

// link is a process's way to AWS, which fails at its call number at; 0 is never.
type link struct {
	at   int
	fate fate

	inner http.RoundTripper
	dead  chan struct{}
	mu    sync.Mutex
	calls []string
	over  bool
}

// fate is what becomes of a call, and of the process that makes it.
type fate string

const (
	// diesBefore the call is made.
	diesBefore fate = "the process dies before it"
	// diesAmid: the call is on its way, and arrives when the next process is there.
	diesAmid fate = "the process dies, and it arrives later"
	// diesAfter: the call is carried out, and its reply reaches nobody.
	diesAfter fate = "the process dies after it"
	// unsent and unheard: the process lives on; neither do the repetitions arrive,
	// or their replies.
	unsent  fate = "it does not arrive"
	unheard fate = "its reply is lost"
)

// stray is how long a call strays whose process died, repeated how often a lost
// one is tried again by the SDK.
const (
	stray    = 3 * time.Second
	repeated = 3
)

func (f fate) deadly() bool { return f == diesBefore || f == diesAmid || f == diesAfter }

var errDead = errors.New("this process is dead")

// RoundTrip counts the calls.
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	action := r.Header.Get("X-Amz-Target")
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return nil, errDead
	}
	l.calls = append(l.calls, action[strings.LastIndex(action, ".")+1:])
	n := len(l.calls)
	hit := l.at > 0 && n >= l.at && n < l.at+repeated && l.calls[n-1] == l.calls[l.at-1] && (n == l.at || !l.fate.deadly())
	if hit && l.fate.deadly() {
		l.over = true
		close(l.dead)
	}
	l.mu.Unlock()
	if !hit {
		return l.inner.RoundTrip(r)
	}
	switch l.fate {
	case diesAmid:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		late := r.Clone(context.Background())
		late.Body = io.NopCloser(bytes.NewReader(body))
		time.AfterFunc(stray, func() { l.deliver(late) })
	case diesAfter, unheard:
		l.deliver(r)
	case diesBefore, unsent:
	}
	return nil, errDead
}

// deliver makes a call whose reply is of no use to anybody.
func (l *link) deliver(r *http.Request) {
	if resp, err := l.inner.RoundTrip(r); err == nil {
		_ = resp.Body.Close() // it is in memory
	}
}

func (l *link) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.over = true
		close(l.dead)
	}
}

func (l *link) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.over
}

// ListKeys and GetByKey are the informer's store.
func (c *cluster) ListKeys() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []string
	for k := range c.pods {
		keys = append(keys, k)
	}
	return keys
}

func (c *cluster) GetByKey(key string) (any, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, ok := c.pods[key]
	return pod, ok, nil
}

// put stores a pod and tells the process that runs.
func (c *cluster) put(pod *corev1.Pod) {
	c.rv++
	pod.ResourceVersion = fmt.Sprint(c.rv)
	key := pod.Namespace + "/" + pod.Name
	c.pods[key] = pod
	c.touch(key)
}

func (c *cluster) touch(key string) {
	if c.now != nil {
		c.now.source.Enqueue(key)
	}
}

// create adds a pod with one container.
func (c *cluster) create(name string, policy corev1.RestartPolicy, change func(*corev1.Pod), argv ...string) {
	grace := int64(5)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now(),
		},
		Spec: corev1.PodSpec{
			RestartPolicy: policy, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "a", Image: "busybox:1", Command: argv}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(pod)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(pod)
}

func (c *cluster) get(name string) *corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods["ns/"+name]
}

func (c *cluster) delete(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pod := c.pods["ns/"+name]; pod != nil && pod.DeletionTimestamp == nil {
		pod = pod.DeepCopy()
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(5 * time.Second)}
		pod.DeletionGracePeriodSeconds = pod.Spec.TerminationGracePeriodSeconds
		c.put(pod)
	}
}

func (c *cluster) deleteAll() {
	for _, key := range c.ListKeys() {
		c.delete(strings.TrimPrefix(key, "ns/"))
	}
}

// SetStatus is the status writer: a terminal phase, and what explains it, waits
// until nothing of the pod can run.
func (p *process) SetStatus(pod *corev1.Pod, status corev1.PodStatus) {
	if !p.link.alive() {
		return
	}
	c := p.cluster
	mayRun := p.engine.CouldHaveRunningContainers(pod.UID)
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.pods[pod.Namespace+"/"+pod.Name]
	if held == nil || held.UID != pod.UID {
		return
	}
	old := held.Status
	if terminal(old.Phase) && status.Phase != old.Phase {
		c.t.Errorf("pod %s went from %s to %s", pod.Name, old.Phase, status.Phase)
	}
	if terminal(status.Phase) && mayRun {
		status.Phase, status.Reason, status.Message = old.Phase, old.Reason, old.Message
		status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget
		})
	}
	for i := range old.ContainerStatuses {
		if i < len(status.ContainerStatuses) &&
			status.ContainerStatuses[i].RestartCount < old.ContainerStatuses[i].RestartCount {
			c.t.Errorf("pod %s: the restart count went back from %d to %d", pod.Name,
				old.ContainerStatuses[i].RestartCount, status.ContainerStatuses[i].RestartCount)
		}
	}
	held = held.DeepCopy()
	held.Status = status
	if phases := c.phases[pod.Name]; len(phases) == 0 || phases[len(phases)-1] != string(status.Phase) {
		c.phases[pod.Name] = append(phases, string(status.Phase))
	}
	c.put(held)
}

func terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodFailed || phase == corev1.PodSucceeded
}

// Reclaimed lets a deleted pod go.
func (p *process) Reclaimed(uid types.UID) {
	if !p.link.alive() {
		return
	}
	c := p.cluster
	live := c.live()
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, pod := range c.pods {
		if pod.UID == uid && pod.DeletionTimestamp != nil {
			if n := live[uid]; n > 0 {
				c.t.Errorf("pod %s is said to be gone, and %d tasks of it live", pod.Name, n)
			}
			delete(c.pods, key)
			c.touch(key)
		}
	}
}

func (p *process) Observe(*corev1.Pod) {}
func (p *process) Forget(types.UID)    {}

func (p *process) Set(*corev1.Pod)                         {}
func (p *process) Adopt(*corev1.Pod, map[string]time.Time) {}

// tokenLife is that of the tokens which Objects has, in seconds.
const tokenLife = 3607

// Objects knows one Secret, and a token of each pod.
func (p *process) Objects(pod *corev1.Pod) resolve.Objects {
	return resolve.Objects{
		ServicesSynced: true,
		Secrets: map[string]resolve.Object[*corev1.Secret]{
			"login": {Value: &corev1.Secret{Data: map[string][]byte{"password": []byte("canary-of-a-secret")}}},
			"none":  {Err: apierrors.NewNotFound(corev1.Resource("secrets"), "none")},
		},
		Tokens: map[resolve.TokenKey]resolve.Object[resolve.Token]{
			{Expiration: tokenLife}: {Value: resolve.Token{
				Value: "token-of-" + string(pod.UID), Expires: pod.CreationTimestamp.Add(tokenLife * time.Second),
			}},
		},
	}
}

func (p *process) Annotated(pod *corev1.Pod, _ map[string]string, kind, reason, message string) {
	p.Event(pod, "", kind, reason, message)
}

func (p *process) Event(pod *corev1.Pod, container, kind, reason, message string) {
	if !p.link.alive() {
		return
	}
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	p.cluster.events = append(p.cluster.events, fmt.Sprintf("%s %s %s %s%s", pod.Name, kind, reason, container, message))
}

// event is the first Event of a pod with this kind and reason; empty for none.
func (c *cluster) event(name, kindAndReason string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if rest, ok := strings.CutPrefix(e, name+" "+kindAndReason+" "); ok {
			return rest
		}
	}
	return ""
}

// live counts the tasks of each pod that are not STOPPED, as ECS knows them.
func (c *cluster) live() map[types.UID]int {
	live := map[types.UID]int{}
	arns := c.server.Tasks(true)
	for part := range slices.Chunk(arns, 100) {
		var out struct {
			Tasks []struct {
				LastStatus string
				Overrides  struct {
					ContainerOverrides []struct {
						Environment []struct{ Name, Value string }
					}
				}
			}
		}
		c.ask("DescribeTasks", map[string]any{"tasks": part}, &out)
		for _, t := range out.Tasks {
			for _, o := range t.Overrides.ContainerOverrides {
				for _, kv := range o.Environment {
					var id struct{ UID types.UID }
					if kv.Name == "BURSTLET_POD" && json.Unmarshal([]byte(kv.Value), &id) == nil && t.LastStatus != "STOPPED" {
						live[id.UID]++
					}
				}
			}
		}
	}
	return live
}

// ask calls ECS for the test itself.
func (c *cluster) ask(action string, in, out any) {
	c.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, stub.Endpoint, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+action)
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set(
		"Authorization",
		"AWS4-HMAC-SHA256 Credential=TEST/20260101/us-east-1/ecs/aws4_request, SignedHeaders=host, Signature=0",
	)
	resp, err := c.server.Client().Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it is in memory
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s, %v", action, resp.Status, err)
	}
}

// noTwins wants at most one live task of each pod.
func (c *cluster) noTwins() {
	c.t.Helper()
	for uid, n := range c.live() {
		if n > 1 {
			c.t.Errorf("%d live tasks of pod %s", n, uid)
		}
	}
}

// pass lets time pass, looking for twins.
func (c *cluster) pass(d time.Duration) {
	c.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end) && !c.t.Failed(); {
		time.Sleep(time.Second)
		c.noTwins()
	}
}
