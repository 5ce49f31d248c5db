// Package binary holds the host helper (cmd/hosthelper) for each architecture of
// hosts, as "make helper" built it, so that burstlet can put it on a host.
package binary

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

//go:embed built
var built embed.FS

// ErrMissing is wrapped by the error about a burstlet without its helper.
var ErrMissing = errors.New("this burstlet was built without its host helper: build it with make build")

// For returns the helper's executable file for Linux on a GOARCH.
// Errors: ErrMissing; another when the helper does not exist for that GOARCH.
func For(goarch string) ([]byte, error) { return from(built, goarch) }

// Packed is For's file packed by gzip, as it travels.
func Packed(goarch string) ([]byte, error) { return packedIn(built, goarch) }

func packedIn(files fs.FS, goarch string) ([]byte, error) {
	switch goarch {
	case "amd64", "arm64":
	default:
		return nil, fmt.Errorf("there is no host helper for the architecture %q: hosts are amd64 or arm64", goarch)
	}
	packed, err := fs.ReadFile(files, "built/hosthelper-linux-"+goarch+".gz")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMissing
	}
	if err != nil {
		return nil, fmt.Errorf("read host helper: %w", err)
	}
	return packed, nil
}

func from(files fs.FS, goarch string) ([]byte, error) {
	packed, err := packedIn(files, goarch)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack host helper: %w", err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("unpack host helper: %w", err)
	}
	return out, nil
}
