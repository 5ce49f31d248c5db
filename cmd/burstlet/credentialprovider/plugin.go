package credentialprovider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/containerd/log"
	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kubelet/config/v1"
	credentialproviderv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/syncloop/images"
)

const (
	// execLimit is how long a plugin may take, as a kubelet has it.
	execLimit = time.Minute
	// execGrace is how long what a plugin left running may hold its output open.
	execGrace = 2 * time.Second
	maxAnswer = 1 << 20
	maxStderr = 1 << 10

	globalKey = "<global>" // no image and no registry is called so
)

// Plugins are the plugins of a node, in the order of their configuration.
type Plugins struct{ plugins []*plugin }

// Credentials are the logins that the plugins have for an image, by its full name without
// tag and digest, that a pod wants. A plugin that fails has none: the pull is tried without,
// and says what the registry said (kubelet: perPodPluginProvider).
func (p *Plugins) Credentials(ctx context.Context, pod *corev1.Pod, repository string) []backend.Credential {
	var out []backend.Credential
	for _, one := range p.plugins {
		logins, account, err := one.logins(ctx, pod, repository)
		if err != nil {
			log.G(ctx).WithError(err).WithField("image", repository).Error("a credential provider failed")
			continue
		}
		out = append(out, images.LoginsFor(repository, account, logins)...)
	}
	return out
}

// plugin is one program.
type plugin struct {
	bin          string
	config       configv1.CredentialProvider
	turn         chan struct{} // one question at a time: the answer to it may answer the next
	defaultCache time.Duration
	accounts     *accounts

	mu    sync.Mutex
	cache map[cacheKey]answer
}

// cacheKey is for what and for whom an answer is.
type cacheKey struct{ of, caller string }

// answer is what a plugin said, good until then.
type answer struct {
	logins map[string]backend.Credential
	until  time.Time
}

func newPlugin(bin string, config configv1.CredentialProvider, accounts *accounts) *plugin {
	return &plugin{
		bin: bin, config: config, turn: make(chan struct{}, 1), defaultCache: config.DefaultCacheDuration.Duration,
		accounts: accounts, cache: map[cacheKey]answer{},
	}
}

// logins are those by registry and path that the plugin has for an image that a pod wants, and
// the ServiceAccount that they are for, if any.
func (p *plugin) logins(
	ctx context.Context, pod *corev1.Pod, repository string,
) (map[string]backend.Credential, string, error) {
	if !images.MatchesAny(p.config.MatchImages, repository) {
		return nil, "", nil
	}
	who, asked, err := p.accounts.caller(ctx, pod, p.config.TokenAttributes)
	if err != nil {
		return nil, "", fmt.Errorf(
			"ask credential provider %s for pod %s/%s: %w", p.config.Name, pod.Namespace, pod.Name, err,
		)
	}
	if !asked {
		return nil, "", nil
	}
	logins, err := p.loginsOf(ctx, who, repository)
	return logins, who.account, err
}

// loginsOf are those for an image and a caller.
func (p *plugin) loginsOf(ctx context.Context, who caller, repository string) (map[string]backend.Credential, error) {
	if kept, ok := p.kept(who, repository); ok {
		return kept, nil
	}
	if !who.alone {
		select {
		case p.turn <- struct{}{}:
			defer func() { <-p.turn }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if kept, ok := p.kept(who, repository); ok {
			return kept, nil
		}
	}
	response, err := p.ask(ctx, who, repository)
	if err != nil {
		return nil, fmt.Errorf("run credential provider %s: %w", p.config.Name, err)
	}
	of, err := keyOf(response.CacheKeyType, repository)
	if err == nil {
		err = who.refuses(response)
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer of credential provider %s: %w", p.config.Name, err)
	}
	logins := make(map[string]backend.Credential, len(response.Auth))
	for address, auth := range response.Auth {
		logins[address] = backend.Credential{Username: auth.Username, Password: auth.Password}
	}
	keep := p.defaultCache
	if response.CacheDuration != nil {
		keep = response.CacheDuration.Duration
	}
	p.keep(cacheKey{of, who.key}, logins, keep)
	return logins, nil
}

func keyOf(kind credentialproviderv1.PluginCacheKeyType, repository string) (string, error) {
	switch kind {
	case credentialproviderv1.ImagePluginCacheKeyType:
		return repository, nil
	case credentialproviderv1.RegistryPluginCacheKeyType:
		return registryOf(repository), nil
	case credentialproviderv1.GlobalPluginCacheKeyType:
		return globalKey, nil
	}
	return "", errCacheKeyType
}

func registryOf(repository string) string {
	registry, _, _ := strings.Cut(repository, "/")
	return registry
}

func (p *plugin) kept(who caller, repository string) (map[string]backend.Credential, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range []string{repository, registryOf(repository), globalKey} {
		if a, ok := p.cache[cacheKey{of, who.key}]; ok && time.Now().Before(a.until) {
			return a.logins, true
		}
	}
	return nil, false
}

// keep keeps an answer, and forgets those whose time is over.
func (p *plugin) keep(key cacheKey, logins map[string]backend.Credential, d time.Duration) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for old, a := range p.cache {
		if !now.Before(a.until) {
			delete(p.cache, old)
		}
	}
	if d > 0 {
		p.cache[key] = answer{logins: logins, until: now.Add(d)}
	}
}

// ask runs the program.
func (p *plugin) ask(
	ctx context.Context, who caller, repository string,
) (*credentialproviderv1.CredentialProviderResponse, error) {
	request := credentialproviderv1.CredentialProviderRequest{
		Image: repository, ServiceAccountToken: who.token, ServiceAccountAnnotations: who.annotations,
	}
	request.APIVersion, request.Kind = p.config.APIVersion, "CredentialProviderRequest"
	question, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, execLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.bin, p.config.Args...) //nolint:gosec // the operator's own configuration
	stdout, stderr := &backend.Beginning{Most: maxAnswer}, &backend.Beginning{Most: maxStderr}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(question), stdout, stderr, execGrace
	cmd.Env = os.Environ()
	for _, v := range p.config.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return p.read(stdout)
}

// read reads an answer. Its errors quote nothing of it: it has logins.
func (p *plugin) read(stdout *backend.Beginning) (*credentialproviderv1.CredentialProviderResponse, error) {
	if stdout.Cut() {
		return nil, fmt.Errorf("it answered more than %d bytes", maxAnswer)
	}
	var response credentialproviderv1.CredentialProviderResponse
	decoder := json.NewDecoder(bytes.NewReader(stdout.Bytes()))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&response) != nil {
		return nil, errors.New("its answer is no CredentialProviderResponse")
	}
	if response.Kind != "CredentialProviderResponse" || response.APIVersion != p.config.APIVersion {
		return nil, fmt.Errorf("its answer is a %q of %q, not a CredentialProviderResponse of %s",
			clip(response.Kind), clip(response.APIVersion), p.config.APIVersion)
	}
	return &response, nil
}

func clip(text string) string { return text[:min(len(text), 64)] }
