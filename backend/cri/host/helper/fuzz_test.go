package helper

import (
	"bytes"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/burstlet/burstlet/backend/cri/host"
)

func FuzzArguments(f *testing.F) {
	f.Add(uint8(0), []byte(`{"Files":[{"Path":"a","Data":"eA=="}],"FSGroup":7}`))
	f.Add(uint8(3), []byte(`null`))
	f.Add(uint8(9), []byte(`{"Pods":[{"Cgroup":{"HugePages":{"2MB":-1}}}],"Max":1e99}`))
	names := make([]string, 0, len(operations()))
	for name := range operations() {
		names = append(names, name)
	}
	slices.Sort(names)
	f.Fuzz(func(t *testing.T, which uint8, args []byte) {
		h := &fakeHost{}
		out := operations()[names[int(which)%len(names)]].do(t.Context(), h, args)
		if out == nil || len(h.calls) > 1 {
			t.Errorf("%s: %v after %d calls", names[int(which)%len(names)], out, len(h.calls))
		}
	})
}

func FuzzGreeting(f *testing.F) {
	f.Add([]byte("Last login\nburstlet-hosthelper 1-ab\nrest"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rest, err := readGreeting(bytes.NewReader(data), "1-ab", maxNoise)
		if err == nil && !bytes.Contains(data, append(greeting("1-ab"), rest...)) {
			t.Errorf("%q left %q", data, rest)
		}
	})
}

// What a client, or something else, may send to the helper must end it at worst.
func FuzzServe(f *testing.F) {
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		here, there := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- Serve(t.Context(), there, &fakeHost{}) }()
		go func() { _, _ = io.Copy(io.Discard, here) }()
		_, _ = here.Write(append(greeting(version()), data...))
		here.Close()
		if err := <-served; err != nil {
			t.Log(err) // Any end will do.
		}
	})
}

// What the helper, or something else, may answer must fail the call at worst.
func FuzzClient(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		here, there := net.Pipe()
		go func() {
			go func() { _, _ = io.Copy(io.Discard, there) }()
			_, _ = there.Write(append(greeting(version()), data...))
			there.Close()
		}()
		c := NewClient(here)
		if err := c.Sweep(t.Context(), host.Sweep{}); err == nil {
			t.Error("an answer was made up")
		}
		<-c.Done()
		_ = c.Close()
	})
}
