package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/burstlet/burstlet/test/kit/ports"
	"github.com/burstlet/burstlet/test/kit/wait"
)

const (
	// askTimeout bounds one question whether a component is ready.
	askTimeout = 30 * time.Second
	// portAttempts is how often a component that lost its port to another process
	// is started on a new one.
	portAttempts = 3
)

// Start starts a control plane and returns when it is ready for use: every
// component is ready, Service default/kubernetes exists and, with a controller
// manager, the default ServiceAccount of namespace default. ctx bounds the
// start, not the life of the processes. On an error nothing is left running;
// the error quotes the end of the log of the component that failed.
func Start(ctx context.Context, cfg Config) (*ControlPlane, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	dir, ours, err := prepareStateDir(cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("start control plane: prepare state directory: %w", err)
	}
	c := &ControlPlane{cfg: cfg, dir: dir, removeDir: ours, failed: make(chan error, 1)}
	startCtx, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	began := time.Now()
	if err := c.bringUp(startCtx); err != nil {
		err = fmt.Errorf("start control plane: %w", err)
		// ctx may have ended already; stopping is bounded by itself.
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	c.printf("control plane is ready after %s", time.Since(began).Round(10*time.Millisecond))
	return c, nil
}

func (c *ControlPlane) bringUp(ctx context.Context) error {
	var err error
	if c.lock, err = hold(c.dir); err != nil {
		return err
	}
	if err := c.writePKI(); err != nil {
		return err
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.startOne(ctx, c.apiServer()); err != nil {
		return err
	}
	if err := c.startControllers(ctx); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if err := allowKubeletAPI(ctx, client); err != nil {
		return err
	}
	return c.awaitDefaults(ctx, client)
}

// startControllers starts the controller manager and the scheduler together:
// each spends most of its start waiting.
func (c *ControlPlane) startControllers(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if !c.cfg.WithoutControllerManager {
		group.Go(func() error { return c.startOne(ctx, c.controllerManager()) })
	}
	if !c.cfg.WithoutScheduler {
		group.Go(func() error { return c.startOne(ctx, c.scheduler()) })
	}
	return group.Wait()
}

// startOne starts a component on a free port, waits until it is ready and
// remembers it.
func (c *ControlPlane) startOne(ctx context.Context, comp component) error {
	var last error
	for range portAttempts {
		port := 0
		if comp.host != "" {
			free, release, err := ports.Reserve(comp.host)
			if err != nil {
				return fmt.Errorf("start %s: %w", comp.name, err)
			}
			// Of one that is taken nonetheless, too: it is not to be tried again.
			c.mu.Lock()
			c.releases = append(c.releases, release)
			c.mu.Unlock()
			port = free
		}
		if comp.name == apiServerName {
			c.apiPort = port
			if err := c.writeKubeconfigs(); err != nil {
				return err
			}
		}
		p, err := c.launch(ctx, comp, port)
		if err == nil {
			c.mu.Lock()
			place := len(c.procs)
			if isEtcd(p.name) {
				place = 0 // also of one that is started again: the others are stopped before it
			}
			c.procs = slices.Insert(c.procs, place, p)
			c.mu.Unlock()
			return nil
		}
		if last = err; !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return last
}

// errPortTaken says that a component could not listen on its port.
var errPortTaken = errors.New("port is taken")

// launch starts a component and waits until it is ready. On an error the
// process is gone.
func (c *ControlPlane) launch(ctx context.Context, comp component, port int) (*process, error) {
	began := time.Now()
	p, err := startProcess(comp.name, comp.path, comp.args(port), c.dir, c.LogPath(comp.name), c.failed)
	if err != nil {
		return nil, err
	}
	ask, err := c.readiness(comp, port)
	if err == nil {
		err = p.await(ctx, comp.name+" to be ready", ask)
	}
	if err != nil {
		if bytes.Contains(p.logTail(), []byte("address already in use")) {
			err = fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return nil, errors.Join(err, p.stop(context.WithoutCancel(ctx), stopGrace))
	}
	p.watch()
	c.printf("%s is ready after %s (pid %d)", comp.name, time.Since(began).Round(10*time.Millisecond), p.Pid())
	return p, nil
}

// readiness returns the question whether a component is ready.
func (c *ControlPlane) readiness(comp component, port int) (func(context.Context) error, error) {
	if comp.socket != "" {
		client := socketClient(comp.socket)
		return func(ctx context.Context) error { return getOK(ctx, client, "http://localhost"+comp.readyPath) }, nil
	}
	client, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	url := c.URL()
	if comp.name != apiServerName {
		url = "https://" + net.JoinHostPort(comp.host, strconv.Itoa(port))
	}
	return func(ctx context.Context) error { return getOK(ctx, client, url+comp.readyPath) }, nil
}

// getOK asks a URL and returns an error unless it answers 200.
func getOK(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	_, err = answer(client, req)
	return err
}

// answer is the beginning of the body of an answer with 200; all others are errors.
func answer(client *http.Client, req *http.Request) ([]byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, tailBytes))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", req.URL, resp.Status, bytes.TrimSpace(body))
	}
	return body, nil
}

// await asks until the answer is good. It ends early when the process ends.
func (p *process) await(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := wait.Until(ctx, what, func(ctx context.Context) error {
		ctx, answered := context.WithTimeout(ctx, askTimeout)
		defer answered()
		err := ask(ctx)
		select {
		case <-p.Done():
			cancel(p.Err())
		default:
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w; end of %s:\n%s", err, p.logPath, p.logTail())
	}
	return nil
}

// allowKubeletAPI allows the API server what it asks of kubelets, as a cluster's
// installer does.
func allowKubeletAPI(ctx context.Context, client kubernetes.Interface) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: kubeletClient},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: kubeletClient}},
	}
	_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("allow API server to use kubelets: %w", err)
	}
	return nil
}

// awaitDefaults waits for what the API server and the controller manager make
// after they are ready.
func (c *ControlPlane) awaitDefaults(ctx context.Context, client kubernetes.Interface) error {
	c.mu.Lock()
	api := c.procs[c.index(apiServerName)]
	c.mu.Unlock()
	get := metav1.GetOptions{}
	err := api.await(ctx, "service default/kubernetes", func(ctx context.Context) error {
		_, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", get)
		return err
	})
	if err != nil || c.cfg.WithoutControllerManager {
		return err
	}
	return api.await(ctx, "service account default/default", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", get)
		return err
	})
}

// printf writes a progress line. Progress is a courtesy: an error of the
// writer must not fail a start.
func (c *ControlPlane) printf(format string, args ...any) {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	_, _ = fmt.Fprintf(c.cfg.Log, format+"\n", args...)
}
