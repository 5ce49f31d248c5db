package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// firstPeer is the first of the numbers that tell the members' sockets for each other apart.
const firstPeer = 2380

// members are the names of etcd's.
func (c *ControlPlane) members() []string {
	if c.cfg.EtcdMembers == 1 {
		return []string{etcdName}
	}
	names := make([]string, c.cfg.EtcdMembers)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", etcdName, i)
	}
	return names
}

// isEtcd says whether a component is a member of etcd.
func isEtcd(name string) bool { return name == etcdName || strings.HasPrefix(name, etcdName+"-") }

// etcdSocket is where a member listens for clients.
func (c *ControlPlane) etcdSocket(member string) string { return filepath.Join(c.dir, member+".sock") }

// etcd is a member.
func (c *ControlPlane) etcd(member string) component {
	// A socket of the name localhost:2380 in the working directory, the state directory: etcd
	// dials the host and the port of an address, and wants it to have both.
	peer := func(i int) string { return fmt.Sprintf("unix://localhost:%d", firstPeer+i) }
	var peers []string
	for i, name := range c.members() {
		peers = append(peers, name+"="+peer(i))
	}
	own := peer(slices.Index(c.members(), member))
	return component{
		name: member, path: c.cfg.Binaries.Etcd, socket: c.etcdSocket(member), readyPath: "/health",
		args: func(int) []string {
			return []string{
				"--name=" + member,
				"--data-dir=" + filepath.Join(c.dir, member),
				"--listen-client-urls=unix://" + c.etcdSocket(member),
				// Nobody asks for it.
				"--advertise-client-urls=http://localhost:2379",
				"--listen-peer-urls=" + own,
				"--initial-advertise-peer-urls=" + own,
				"--initial-cluster=" + strings.Join(peers, ","),
				"--unsafe-no-fsync",
				"--log-level=warn",
			}
		},
	}
}

// etcdServers are the members as the API server wants them.
func (c *ControlPlane) etcdServers() string {
	var urls []string
	for _, member := range c.members() {
		urls = append(urls, "unix://"+c.etcdSocket(member))
	}
	return strings.Join(urls, ",")
}

// startEtcd starts all members together: none is ready before most of them run.
func (c *ControlPlane) startEtcd(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, member := range c.members() {
		group.Go(func() error { return c.startOne(ctx, c.etcd(member)) })
	}
	return group.Wait()
}

// behindEtcd is the place in procs behind etcd's members, which come first.
func (c *ControlPlane) behindEtcd() int {
	if i := slices.IndexFunc(c.procs, func(p *process) bool { return !isEtcd(p.name) }); i >= 0 {
		return i
	}
	return len(c.procs)
}

// EtcdLeader returns the name of the member that leads, as PIDs has it.
func (c *ControlPlane) EtcdLeader(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.etcdLeader(ctx)
	if err != nil {
		return "", err
	}
	return p.name, nil
}

func (c *ControlPlane) etcdLeader(ctx context.Context) (*process, error) {
	var errs []error
	for _, p := range c.procs[:c.behindEtcd()] {
		leads, err := leads(ctx, c.etcdSocket(p.name))
		if leads {
			return p, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no member of etcd leads: %w", errors.Join(errs...))
}

// leads asks a member whether it leads.
func leads(ctx context.Context, socket string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	const url = "http://localhost/v3/maintenance/status"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return false, err
	}
	body, err := answer(socketClient(socket), req)
	if err != nil {
		return false, err
	}
	var status struct {
		Header struct {
			Member string `json:"member_id"`
		} `json:"header"`
		Leader string `json:"leader"`
	}
	if err := json.Unmarshal(body, &status); err != nil {
		return false, fmt.Errorf("read the status of etcd: %w", err)
	}
	return status.Leader != "" && status.Leader == status.Header.Member, nil
}

// socketClient dials a unix socket, whatever the address.
func socketClient(socket string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

// KillEtcdLeader ends the member that leads with SIGKILL and returns its name. The others
// elect one of them, if they are most of all.
func (c *ControlPlane) KillEtcdLeader(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.etcdLeader(ctx)
	if err != nil {
		return "", err
	}
	if err := p.kill(); err != nil {
		return "", fmt.Errorf("kill %s: %w", p.name, err)
	}
	c.procs = slices.DeleteFunc(c.procs, func(q *process) bool { return q == p })
	return p.name, nil
}

// StartEtcdMember starts a member that was killed, with its data, and waits until it is
// ready.
func (c *ControlPlane) StartEtcdMember(ctx context.Context, name string) error {
	c.mu.Lock()
	runs := c.index(name) >= 0
	c.mu.Unlock()
	if runs || !slices.Contains(c.members(), name) {
		return fmt.Errorf("start %s: it runs, or is no member of etcd", name)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout)
	defer cancel()
	return c.startOne(ctx, c.etcd(name))
}

// Backup copies etcd's data to a directory, which it makes. For as long as that takes neither
// etcd nor the API server runs. No other call may start or stop anything meanwhile.
func (c *ControlPlane) Backup(ctx context.Context, dir string) error {
	if err := c.StopAPIServer(ctx); err != nil {
		return fmt.Errorf("back up etcd: %w", err)
	}
	c.mu.Lock()
	err := stopAll(ctx, c.procs[:c.behindEtcd()])
	c.procs = slices.Delete(c.procs, 0, c.behindEtcd())
	c.mu.Unlock()
	for _, member := range c.members() {
		err = errors.Join(err, os.CopyFS(filepath.Join(dir, member), os.DirFS(filepath.Join(c.dir, member))))
	}
	if err != nil {
		return fmt.Errorf("back up etcd: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout)
	defer cancel()
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// Restore ends all processes, puts what Backup copied in the place of etcd's data and starts
// them again: what came later was never. The API server has the port that it had. No other
// call may start or stop anything meanwhile.
func (c *ControlPlane) Restore(ctx context.Context, dir string) error {
	c.mu.Lock()
	err := stopAll(ctx, c.procs)
	c.procs = nil
	c.mu.Unlock()
	for _, member := range c.members() {
		data := filepath.Join(c.dir, member)
		err = errors.Join(err, os.RemoveAll(data), os.CopyFS(data, os.DirFS(filepath.Join(dir, member))))
	}
	if err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout)
	defer cancel()
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	return c.startControllers(ctx)
}
