package listing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/burstlet/burstlet/backend"
)

// Pods is a listing in a compact form: fields one after the other, numbers as
// varints. Words that many entries share (images, hashes, namespaces) stand there
// once, which saves the reader the memory too.
type Pods []backend.PodFacts

// Volumes is a listing in the same form.
type Volumes []backend.VolumeFacts

// MarshalBinary encodes the list.
func (l Pods) MarshalBinary() ([]byte, error) {
	w := newWriter(256 * len(l))
	w.count(len(l), l == nil)
	for i := range l {
		w.pod(&l[i])
	}
	return w.buf, nil
}

// UnmarshalBinary decodes a list.
func (l *Pods) UnmarshalBinary(data []byte) error {
	r := reader{rest: data}
	*l = readSlice(&r, r.pod)
	return r.end()
}

// MarshalBinary encodes the list.
func (l Volumes) MarshalBinary() ([]byte, error) {
	w := newWriter(128 * len(l))
	w.count(len(l), l == nil)
	for i := range l {
		w.ref(&l[i].Pod)
		w.word(l[i].Name)
		w.word(l[i].Hash)
		w.time(l[i].PlacedAt)
	}
	return w.buf, nil
}

// UnmarshalBinary decodes a list.
func (l *Volumes) UnmarshalBinary(data []byte) error {
	r := reader{rest: data}
	*l = readSlice(&r, func(v *backend.VolumeFacts) {
		r.ref(&v.Pod)
		v.Name, v.Hash, v.PlacedAt = r.word(), r.word(), r.time()
	})
	return r.end()
}

type writer struct {
	buf   []byte
	words map[string]uint64 // 1-based
}

func newWriter(size int) *writer {
	return &writer{buf: make([]byte, 0, size), words: map[string]uint64{}}
}

func (w *writer) pod(p *backend.PodFacts) {
	w.ref(&p.Ref)
	w.bool(p.Live)
	w.time(p.CreatedAt)
	w.time(p.StoppedAt)
	w.texts(p.IPs)
	w.texts(p.HostIPs)
	w.word(p.Reason)
	w.text(p.Message)
	w.bool(p.Disrupted)
	w.eviction(p.Evicted)
	w.count(len(p.Containers), p.Containers == nil)
	for i := range p.Containers {
		w.container(&p.Containers[i])
	}
}

func (w *writer) eviction(e *backend.Eviction) {
	if w.bool(e != nil); e == nil {
		return
	}
	w.word(e.Limit)
	w.uint(e.Used)
	w.text(e.Message)
	w.time(e.At)
}

func (w *writer) container(c *backend.ContainerFacts) {
	w.word(c.Name)
	w.text(c.ID)
	w.int(int64(c.Attempt))
	w.word(c.Hash)
	w.int(int64(c.Round))
	w.word(c.Image)
	w.word(c.ImageID)
	w.time(c.CreatedAt)
	w.time(c.StartedAt)
	w.time(c.FinishedAt)
	w.int(int64(c.ExitCode))
	w.bool(c.OOM)
	w.word(c.Reason)
	w.text(c.Message)
	w.text(c.Killed)
	w.word(c.HookFailed)
	w.bool(c.Healthy != nil)
	if c.Healthy != nil {
		w.bool(*c.Healthy)
	}
	w.bool(c.User != nil)
	if c.User != nil {
		w.int(c.User.UID)
		w.int(c.User.GID)
		w.count(len(c.User.SupplementalGroups), c.User.SupplementalGroups == nil)
		for _, g := range c.User.SupplementalGroups {
			w.int(g)
		}
	}
	w.resources(c.Resources)
}

func (w *writer) ref(r *backend.Ref) {
	w.text(string(r.UID))
	w.word(r.Namespace)
	w.text(r.Name)
	w.int(int64(r.Attempt))
	w.text(r.ID)
}

func (w *writer) uint(n uint64) { w.buf = binary.AppendUvarint(w.buf, n) }
func (w *writer) int(n int64)   { w.buf = binary.AppendVarint(w.buf, n) }

func (w *writer) bool(b bool) {
	n := uint64(0)
	if b {
		n = 1
	}
	w.uint(n)
}

// count is one more than the length; 0 is nil.
func (w *writer) count(n int, isNil bool) {
	if isNil {
		w.uint(0)
		return
	}
	w.uint(uint64(n) + 1)
}

func (w *writer) text(s string) {
	w.uint(uint64(len(s)))
	w.buf = append(w.buf, s...)
}

// word is the number of a text seen before, or 0 and the text.
func (w *writer) word(s string) {
	if n, ok := w.words[s]; ok {
		w.uint(n)
		return
	}
	w.words[s] = uint64(len(w.words)) + 1
	w.uint(0)
	w.text(s)
}

func (w *writer) texts(list []string) {
	w.count(len(list), list == nil)
	for _, s := range list {
		w.text(s)
	}
}

func (w *writer) time(t time.Time) {
	w.bool(!t.IsZero())
	if !t.IsZero() {
		w.int(t.Unix())
		w.uint(uint64(t.Nanosecond()))
	}
}

var errCutShort = errors.New("the listing is cut short")

// reader reads what writer wrote. After the first error it reads
// zeros; end returns the error.
type reader struct {
	rest  []byte
	words []string
	// held are the resources read before, by how they are written.
	held map[string]*corev1.ResourceRequirements
	err  error
}

func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail(fmt.Errorf("%d bytes after the end of the listing", len(r.rest)))
	}
	return r.err
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

func (r *reader) pod(p *backend.PodFacts) {
	r.ref(&p.Ref)
	p.Live, p.CreatedAt, p.StoppedAt = r.bool(), r.time(), r.time()
	p.IPs, p.HostIPs = r.texts(), r.texts()
	p.Reason, p.Message, p.Disrupted = r.word(), r.text(), r.bool()
	if r.bool() {
		p.Evicted = &backend.Eviction{Limit: r.word(), Used: r.uint(), Message: r.text(), At: r.time()}
	}
	p.Containers = readSlice(r, r.container)
}

func (r *reader) container(c *backend.ContainerFacts) {
	c.Name, c.ID, c.Attempt = r.word(), r.text(), int(r.int())
	c.Hash, c.Round, c.Image, c.ImageID = r.word(), int(r.int()), r.word(), r.word()
	c.CreatedAt, c.StartedAt, c.FinishedAt = r.time(), r.time(), r.time()
	c.ExitCode, c.OOM = int32(r.int()), r.bool()
	c.Reason, c.Message, c.Killed, c.HookFailed = r.word(), r.text(), r.text(), r.word()
	if r.bool() {
		healthy := r.bool()
		c.Healthy = &healthy
	}
	if r.bool() {
		c.User = &corev1.LinuxContainerUser{UID: r.int(), GID: r.int()}
		c.User.SupplementalGroups = readSlice(r, func(g *int64) { *g = r.int() })
	}
	c.Resources = r.resources()
}

func (r *reader) ref(ref *backend.Ref) {
	ref.UID, ref.Namespace, ref.Name = types.UID(r.text()), r.word(), r.text()
	ref.Attempt, ref.ID = int(r.int()), r.text()
}

func (r *reader) uint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.fail(errCutShort)
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) int() int64 {
	n, size := binary.Varint(r.rest)
	if size <= 0 {
		r.fail(errCutShort)
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) bool() bool { return r.uint() == 1 }

func (r *reader) text() string {
	n := r.uint()
	if n > uint64(len(r.rest)) {
		r.fail(errCutShort)
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

func (r *reader) word() string {
	n := r.uint()
	switch {
	case n == 0:
		s := r.text()
		r.words = append(r.words, s)
		return s
	case n > uint64(len(r.words)):
		r.fail(errors.New("the listing refers to a word that it does not have"))
		return ""
	}
	return r.words[n-1]
}

func (r *reader) texts() []string {
	return readSlice(r, func(s *string) { *s = r.text() })
}

func (r *reader) time() time.Time {
	if !r.bool() {
		return time.Time{}
	}
	seconds, nanos := r.int(), r.uint()
	if nanos > math.MaxInt32 {
		r.fail(errors.New("a time of the listing is out of range"))
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanos))
}

// readSlice reads a count and so many elements.
func readSlice[T any](r *reader, read func(*T)) []T {
	n := r.uint()
	if n == 0 {
		return nil
	}
	n--
	if n > uint64(len(r.rest)) { // every element takes a byte at least
		r.fail(errCutShort)
		return nil
	}
	list := make([]T, n)
	for i := range list {
		read(&list[i])
		if r.err != nil {
			return nil
		}
	}
	return list
}
