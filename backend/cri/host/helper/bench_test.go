package helper

import (
	"context"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// overSocket is a client over a socket, as a process beside it has it.
func overSocket(b *testing.B, h host.Host) *Client {
	b.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		b.Fatal(err)
	}
	ends := make([]net.Conn, 2)
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "socket")
		if ends[i], err = net.FileConn(file); err != nil {
			b.Fatal(err)
		}
		file.Close()
	}
	served := make(chan error, 1)
	go func() { served <- Serve(context.Background(), ends[1], h) }()
	c := NewClient(ends[0])
	b.Cleanup(func() {
		c.Close()
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	return c
}

func BenchmarkSmallOperation(b *testing.B) {
	c := overSocket(b, &fakeHost{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Limit(b.Context(), host.Cgroup{Parent: "/kubepods/pod1", Memory: 1 << 30}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlaceOneMiB(b *testing.B) {
	c := overSocket(b, &fakeHost{})
	volume := host.Volume{Files: []host.File{{Path: "a", Data: make([]byte, 1<<20)}}}
	b.SetBytes(1 << 20)
	for b.Loop() {
		if err := c.Place(b.Context(), volume); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLog(b *testing.B) {
	const size = 64 << 20
	c := overSocket(b, &fakeHost{log: func(context.Context, host.LogRequest) (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(endlessZeros{}, size)), nil
	}})
	b.SetBytes(size)
	for b.Loop() {
		r, err := c.Log(b.Context(), host.LogRequest{})
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); n != size || err != nil {
			b.Fatal(n, err)
		}
		r.Close()
	}
}

type endlessZeros struct{}

func (endlessZeros) Read(p []byte) (int, error) { return len(p), nil }
