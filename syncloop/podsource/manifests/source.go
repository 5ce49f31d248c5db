package manifests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
)

const (
	// filePeriod is how often files are looked at. A kubelet follows them with inotify,
	// which network file systems lack.
	filePeriod = 2 * time.Second
	// httpPeriod and httpTimeout are the kubelet's (httpCheckFrequency).
	httpPeriod  = 20 * time.Second
	httpTimeout = 10 * time.Second
	// tellAgain is how often the same error is told.
	tellAgain = 10 * time.Minute
)

// Config says where static pods come from.
type Config struct {
	// Path is a file or directory, URL an address of manifests; empty for none.
	Path, URL string
	// Header is sent with each request for URL. It is never logged.
	Header http.Header
	// Node is the name of the node.
	Node string
	// Changed is given all pods whenever some changed. While a source could not be read
	// once, whole is false: there may be more. The pods are its own.
	Changed func(pods []*corev1.Pod, whole bool)
	// Problem tells users what is wrong with a manifest.
	Problem func(error)
}

// Source reads static pods.
type Source struct {
	cfg    Config
	client *http.Client

	// Below: Run's alone.
	files, remote reading
	seen          map[string]string // when a pod was first read, by UID
}

// reading is what is known of one source.
type reading struct {
	done  bool
	pods  []*corev1.Pod
	files []file
	data  []byte

	problem string
	told    time.Time
}

// New returns a source that reads nothing until Run.
func New(cfg Config) *Source {
	return &Source{cfg: cfg, client: &http.Client{Timeout: httpTimeout}, seen: map[string]string{}}
}

// Run reads until the context ends.
func (s *Source) Run(ctx context.Context) error {
	s.files.done, s.remote.done = s.cfg.Path == "", s.cfg.URL == ""
	files, remote := time.NewTicker(filePeriod), time.NewTicker(httpPeriod)
	defer files.Stop()
	defer remote.Stop()
	s.hand(s.readFiles(ctx))
	s.hand(s.readURL(ctx)) // which may take a while
	for {
		changed := false
		select {
		case <-ctx.Done():
			return nil
		case <-files.C:
			changed = s.readFiles(ctx)
		case <-remote.C:
			changed = s.readURL(ctx)
		}
		s.hand(changed)
	}
}

// hand hands on all pods, those of files first: of two with the same name or UID they stay.
// A source that cannot be read keeps none of another's from running (kubelet: a source's
// pods are handed on as they come; only clean-up waits for all sources).
func (s *Source) hand(changed bool) {
	if !changed {
		return
	}
	now := time.Now().Format(time.RFC3339Nano)
	seen := map[string]string{}
	var all []*corev1.Pod
	for _, pod := range slices.Concat(s.files.pods, s.remote.pods) {
		if i := slices.IndexFunc(all, func(p *corev1.Pod) bool { return same(p, pod) }); i >= 0 {
			s.cfg.Problem(fmt.Errorf(
				"manifest of pod %s/%s, UID %s, at the URL is not used: pod %s/%s, UID %s, has its name or UID",
				pod.Namespace, pod.Name, pod.UID, all[i].Namespace, all[i].Name, all[i].UID,
			))
			continue
		}
		uid := string(pod.UID)
		if seen[uid] = s.seen[uid]; seen[uid] == "" {
			seen[uid] = now
		}
		pod = pod.DeepCopy()
		pod.Annotations[AnnotationSeen] = seen[uid]
		all = append(all, pod)
	}
	s.seen = seen
	s.cfg.Changed(all, s.files.done && s.remote.done)
}

// same is true of two pods of which a node can run one: a name has one mirror pod, and what
// runs is told apart by UIDs.
func same(a, b *corev1.Pod) bool {
	return a.Namespace == b.Namespace && a.Name == b.Name || a.UID == b.UID
}

// readFiles is true if something changed.
func (s *Source) readFiles(ctx context.Context) bool {
	if s.cfg.Path == "" {
		return false
	}
	files, err := list(s.cfg.Path)
	if err != nil {
		s.tell(ctx, &s.files, fmt.Errorf("list manifests: %w", err))
		return false
	}
	if s.files.done && slices.Equal(files, s.files.files) {
		return false
	}
	pods, err := fromFiles(files, s.cfg.Node)
	s.tell(ctx, &s.files, err)
	s.files.done, s.files.files, s.files.pods = true, files, pods
	return true
}

// readURL is true if something changed.
func (s *Source) readURL(ctx context.Context) bool {
	if s.cfg.URL == "" {
		return false
	}
	data, err := s.get(ctx)
	if err != nil {
		s.tell(ctx, &s.remote, fmt.Errorf("read manifests: %w", err))
		return false
	}
	if s.remote.done && bytes.Equal(data, s.remote.data) {
		return false
	}
	var pods []*corev1.Pod
	if len(data) > 0 {
		pods, err = decode(data, origin{sourceHTTP, s.cfg.URL, s.cfg.Node})
	} else {
		err = fmt.Errorf("zero-length data received from %s", s.cfg.URL)
	}
	s.tell(ctx, &s.remote, err)
	s.remote.done, s.remote.data, s.remote.pods = true, data, pods
	return true
}

func (s *Source) get(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.cfg.URL, nil)
	if err != nil {
		return nil, err
	}
	if s.cfg.Header != nil {
		request.Header = s.cfg.Header.Clone()
	}
	reply, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", s.cfg.URL, reply.Status)
	}
	return readAtMost(reply.Body, s.cfg.URL)
}

// tell tells of an error that is new, or still there after a while.
func (s *Source) tell(ctx context.Context, r *reading, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		r.problem = ""
		return
	}
	if r.problem == err.Error() && time.Since(r.told) < tellAgain {
		return
	}
	r.problem, r.told = err.Error(), time.Now()
	log.G(ctx).WithError(err).Warn("static pods are not read as they should be")
	s.cfg.Problem(err)
}
