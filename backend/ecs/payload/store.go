package payload

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/identity"
	"github.com/burstlet/burstlet/backend/ecs/intask"
	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// verifyAfter is how long a shared secret that was seen is taken to be there. Who
// deletes one by hand breaks launches for as long.
const verifyAfter = 10 * time.Minute

// Store keeps in Secrets Manager and S3 what tasks need and may not stand in their definitions
// or overrides.
//
// What pods of one shape share is stored once, under a name made of its content
// with a random salt: the name stands in definitions, and without the salt, a
// secret too, a short password could be guessed from it. pods.go stores what is
// a pod's alone.
type Store struct {
	store *secretStore
	pods  podSecrets
	// making is taken by who makes or verifies a shared secret. One at a time: the
	// pods of a large Deployment all want the same ones.
	making chan struct{}

	mu     sync.Mutex
	salt   []byte
	shared map[string]sharedSecret // by name
}

// sharedSecret is one that was seen.
type sharedSecret struct {
	arn            string
	verified, used time.Time
}

// New returns the store of a node, by its identity, with single pods' payloads in a place.
// It calls nothing.
func New(api API, objects ObjectAPI, place Place, node string) *Store {
	s := newSecretStore(api, node)
	return &Store{
		store: s, making: make(chan struct{}, 1), shared: map[string]sharedSecret{},
		pods: podSecrets{store: s, objects: newObjectStore(objects, place, node), entries: map[identity.Key][]*podSecret{}},
	}
}

// Ensure stores what the pod needs and says where it stands. Called again for the same
// attempt with the same contents, by the same process, it says the same to the byte.
// It waits for rates with waiting (backend.While), and calls with ctx. Errors: Invalid for
// contents beyond what the store takes.
func (p *Store) Ensure(ctx, waiting context.Context, spec backend.LaunchSpec) (taskdef.Refs, error) {
	refs, err := p.ensure(ctx, waiting, spec)
	if err != nil {
		return taskdef.Refs{}, fmt.Errorf("store what the pod needs: %w", err)
	}
	return refs, nil
}

func (p *Store) ensure(ctx, waiting context.Context, spec backend.LaunchSpec) (taskdef.Refs, error) {
	var refs taskdef.Refs
	c, err := contentsOf(spec, p.pods.objects.bucket != "")
	if err != nil {
		return refs, err
	}
	if c.secrets() {
		leave, err := p.begin(ctx, waiting)
		if err != nil {
			return refs, err
		}
		defer leave()
		defer func() { p.store.ledger.wanted(identity.KeyOf(spec.Ref()), p.namesOf(refs)) }()
	}
	if c.env != "" {
		if refs.EnvARN, err = p.ensureShared(ctx, waiting, "env", c.env); err != nil {
			return refs, err
		}
	}
	for _, part := range c.files {
		arn, err := p.ensureShared(ctx, waiting, "files", part)
		if err != nil {
			return refs, err
		}
		refs.FilesARNs = append(refs.FilesARNs, arn)
	}
	if refs.PullARNs, err = p.ensureLogins(ctx, waiting, c.logins); err != nil {
		return refs, err
	}
	if len(c.files) > 0 {
		if refs.FilesTag, err = p.filesTag(ctx, waiting, c.files); err != nil {
			return refs, err
		}
	}
	if c.own != nil || len(c.files) > 0 {
		refs.PodStored = c.own != nil
		refs.PodName, refs.PodKey, err = p.pods.ensure(ctx, waiting, spec.Ref(), c)
	}
	return refs, err
}

// ensureLogins stores logins by container name, and returns their ARNs by that.
func (p *Store) ensureLogins(ctx, waiting context.Context, logins map[string]string) (map[string]string, error) {
	var arns map[string]string
	for name, login := range logins {
		arn, err := p.ensureShared(ctx, waiting, "pull", login)
		if err != nil {
			return arns, err
		}
		if arns == nil {
			arns = map[string]string{}
		}
		arns[name] = arn
	}
	return arns, nil
}

// secrets is true of contents that are stored in secrets, in part at least.
func (c contents) secrets() bool {
	return c.env != "" || len(c.files) > 0 || len(c.logins) > 0 || c.own != nil && c.parts > 0
}

// contents are what is stored for a pod. What is empty is not needed.
type contents struct {
	// env are the values of variables, and files the parts of the files, that the
	// shape shares; logins are by container name.
	env    string
	files  []string
	logins map[string]string
	// own are the packed files of the pod alone, and parts how many secrets there is to
	// be room in for them and for those that the shape shares, once they change; 0 in an
	// object.
	own   []byte
	parts int
	// slots is how many payloads of the pod are written in turn, of secrets.
	slots int
}

// contentsOf is pure. Errors: Invalid for what does not fit.
func contentsOf(spec backend.LaunchSpec, object bool) (c contents, err error) {
	c.slots = taskdef.Slots(spec.Pod)
	if c.env, err = envContents(taskdef.SecretEnv(spec)); err != nil {
		return c, err
	}
	shared, own := taskdef.Files(spec)
	size := 0
	if len(shared) > 0 {
		packed, err := pack(shared)
		if err != nil {
			return c, err
		}
		size = len(packed)
		if c.files, err = split(packed); err != nil {
			return c, err
		}
	}
	if len(own) > 0 {
		if c.own, err = pack(own); err != nil {
			return c, err
		}
	}
	if object {
		err = fitsObject(len(c.own))
	} else {
		c.parts, err = roomFor(len(c.own), size)
	}
	if err != nil {
		return c, err
	}
	c.logins, err = loginContents(taskdef.PullLogins(spec))
	return c, err
}

// fitsObject is Invalid for a pod's own files that no object may hold.
func fitsObject(own int) error {
	if own+podfiles.SealOverhead <= intask.MaxObject {
		return nil
	}
	return tooLarge(fmt.Errorf("%d bytes compressed, %d are taken: %w", own, intask.MaxObject-podfiles.SealOverhead,
		podfiles.ErrTooLarge))
}

// roomFor is how many secrets a pod's files may come to fill: its own at least.
func roomFor(own, shared int) (int, error) {
	if parts, err := podfiles.Parts(own + shared + podfiles.SealOverhead); err == nil {
		return parts, nil
	}
	parts, err := podfiles.Parts(own + podfiles.SealOverhead)
	return parts, tooLarge(err)
}

func envContents(values map[string]string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	for name, value := range values {
		if !utf8.ValidString(value) {
			return "", backend.Errorf(backend.ErrInvalid, "variable %s, from a Secret, is no UTF-8 text, and "+
				"Secrets Manager's JSON takes no other: mount the Secret as a volume", name)
		}
	}
	text, err := json.Marshal(values)
	if err != nil {
		return "", errors.New("variables from Secrets: their values cannot be encoded")
	}
	if len(text) > maxSecret {
		return "", backend.Errorf(backend.ErrInvalid, "variables from Secrets have %d bytes, Secrets Manager "+
			"takes %d: mount the Secrets as volumes", len(text), maxSecret)
	}
	return string(text), nil
}

// loginContents are registry logins as ECS wants them (ECS developer guide,
// "Private registry authentication").
func loginContents(logins map[string]backend.Credential) (map[string]string, error) {
	out := map[string]string{}
	for name, c := range logins {
		text, err := json.Marshal(map[string]string{"username": c.Username, "password": c.Password})
		if err != nil {
			return nil, errors.New("the login of a registry cannot be encoded")
		}
		if len(text) > maxSecret {
			return nil, backend.Errorf(backend.ErrInvalid,
				"the login of registry %s is longer than Secrets Manager takes", c.Registry)
		}
		out[name] = string(text)
	}
	return out, nil
}

// sharedName is that of a shared secret with a value.
func (p *Store) sharedName(ctx, waiting context.Context, kind, value string) (string, error) {
	salt, err := p.ensureSalt(ctx, waiting)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, salt)
	mac.Write([]byte(kind + "/" + value))
	const chars = 32
	return p.store.prefix + kindShared + "/" + kind + "." + base32Lower(mac.Sum(nil))[:chars], nil
}

// filesTag tells the files that a shape shares from others, without saying more of
// them than the names of their secrets do.
func (p *Store) filesTag(ctx, waiting context.Context, parts []string) (string, error) {
	var names strings.Builder
	for _, part := range parts {
		name, err := p.sharedName(ctx, waiting, "files", part)
		if err != nil {
			return "", err
		}
		names.WriteString(name)
	}
	return identity.Hash([]byte(names.String()))[:taskdef.FilesTagLength], nil
}

// ensureShared makes sure that a secret with this value is there.
func (p *Store) ensureShared(ctx, waiting context.Context, kind, value string) (string, error) {
	name, err := p.sharedName(ctx, waiting, kind, value)
	if err != nil {
		return "", err
	}
	if arn := p.fresh(name); arn != "" {
		return arn, nil
	}
	if err := p.take(ctx); err != nil {
		return "", err
	}
	defer func() { <-p.making }()
	if arn := p.fresh(name); arn != "" {
		return arn, nil
	}
	arn, err := p.findOrCreate(ctx, waiting, name, value)
	if err != nil {
		return "", err
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shared[name] = sharedSecret{arn: arn, verified: now, used: now}
	return arn, nil
}

// findOrCreate verifies one that was seen before, and else makes it.
func (p *Store) findOrCreate(ctx, waiting context.Context, name, value string) (string, error) {
	p.mu.Lock()
	_, known := p.shared[name]
	p.mu.Unlock()
	if known {
		arn, err := p.store.find(ctx, waiting, name)
		if !errors.Is(err, backend.ErrNotFound) {
			return arn, err
		}
	}
	arn, err := p.store.create(ctx, waiting, name, value)
	if errors.Is(err, backend.ErrNotFound) { // it is there, and being deleted
		return "", backend.Errorf(backend.ErrThrottled, "%w: wait until it is gone", err)
	}
	return arn, err
}

// fresh is the ARN of a shared secret that was verified lately, "" else.
func (p *Store) fresh(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, now := p.shared[name], time.Now()
	if s.arn == "" || now.Sub(s.verified) >= verifyAfter {
		return ""
	}
	s.used = now
	p.shared[name] = s
	return s.arn
}

// retire deletes a shared secret, or the salt, that was not used since a time.
func (p *Store) retire(ctx context.Context, name string, before time.Time) error {
	if err := p.take(ctx); err != nil {
		return err
	}
	defer func() { <-p.making }()
	if p.isUsed(name, before) {
		return nil
	}
	return p.store.remove(ctx, name)
}

// isUsed is true of a secret that was used after a time; else it is forgotten.
func (p *Store) isUsed(name string, since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name == p.store.prefix+kindSalt {
		if len(p.shared) > 0 || !p.store.ledger.abandon() {
			return true
		}
		p.salt = nil
		return false
	}
	if p.shared[name].used.After(since) {
		return true
	}
	delete(p.shared, name)
	return false
}

func (p *Store) take(ctx context.Context) error {
	select {
	case p.making <- struct{}{}:
		return nil
	case <-ctx.Done():
		return backend.Errorf(backend.ErrThrottled, "wait for another secret to be made: %w", ctx.Err())
	}
}

// ensureSalt reads the node's salt, and makes it if there is none.
func (p *Store) ensureSalt(ctx, waiting context.Context) ([]byte, error) {
	if salt := p.knownSalt(); salt != nil {
		return salt, nil
	}
	if err := p.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-p.making }()
	if salt := p.knownSalt(); salt != nil {
		return salt, nil
	}
	name := p.saltName()
	text, err := p.store.value(ctx, waiting, name)
	if errors.Is(err, backend.ErrNotFound) {
		none := smtypes.Tag{Key: aws.String(tagUnlisted), Value: aws.String(unlistedNone)}
		if _, err := p.store.make(ctx, waiting, name, newSalt(), none); err != nil {
			return nil, err
		}
		// Whoever made it: what is there counts.
		text, err = p.store.value(ctx, waiting, name)
	}
	if err != nil {
		return nil, err
	}
	salt, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(salt) < saltSize {
		return nil, fmt.Errorf("secret %s is none of burstlet's: delete it", name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.salt = salt
	return salt, nil
}

func (p *Store) knownSalt() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.salt
}

const saltSize = 32

func newSalt() string {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails: crypto/rand
	return base64.StdEncoding.EncodeToString(salt)
}

// pack makes the payload of volumes with files.
func pack(volumes []backend.VolumeSpec) ([]byte, error) {
	p := podfiles.Payload{Volumes: packable(volumes)} // the launch itself is not among its writes
	p.Due = dueOf(p.Volumes)
	packed, err := p.Pack()
	return packed, tooLarge(err)
}

func packable(volumes []backend.VolumeSpec) []podfiles.Volume {
	var out []podfiles.Volume
	for _, v := range volumes {
		vol := podfiles.Volume{Name: v.Name}
		if sc := v.Pod.Spec.SecurityContext; sc != nil {
			vol.Group = sc.FSGroup
		}
		for _, f := range v.Files {
			vol.Files = append(vol.Files, podfiles.File{Path: f.Path, Data: f.Data, Mode: f.Mode, UID: f.UID})
		}
		out = append(out, vol)
	}
	return out
}

func split(packed []byte) ([]string, error) {
	parts, err := podfiles.Split(packed)
	return parts, tooLarge(err)
}

// tooLarge is Invalid: files beyond what a task can be given.
func tooLarge(err error) error {
	if errors.Is(err, podfiles.ErrTooLarge) {
		return backend.Errorf(backend.ErrInvalid, "files of volumes: %w: use a smaller ConfigMap or Secret, or "+
			"an EFS volume", err)
	}
	return err
}

func base32Lower(b []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}
