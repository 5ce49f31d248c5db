package binary

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"testing"
	"testing/fstest"

	"github.com/burstlet/burstlet/test/kit/need"
)

func TestBuiltHelper(t *testing.T) {
	for goarch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(goarch, func(t *testing.T) {
			file, err := For(goarch)
			if errors.Is(err, ErrMissing) {
				need.Missing(t, "the host helper has not been built: make helper")
			}
			if err != nil {
				t.Fatal(err)
			}
			program, err := elf.NewFile(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			if program.Machine != machine || program.Type != elf.ET_EXEC {
				t.Errorf("machine %s, type %s", program.Machine, program.Type)
			}
			for _, p := range program.Progs {
				if p.Type == elf.PT_INTERP {
					t.Error("it is not static")
				}
			}
		})
	}
}

func TestFor(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte("program")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const name = "built/hosthelper-linux-arm64.gz"
	for _, tt := range []struct {
		name   string
		files  fstest.MapFS
		goarch string
		want   string
		err    string
	}{
		{"there", fstest.MapFS{name: {Data: packed.Bytes()}}, "arm64", "program", ""},
		{"not built", fstest.MapFS{name: {Data: packed.Bytes()}}, "amd64", "", ErrMissing.Error()},
		{"cut off", fstest.MapFS{name: {Data: packed.Bytes()[:20]}}, "arm64", "", "unpack host helper: unexpected EOF"},
		{"empty", fstest.MapFS{name: {}}, "arm64", "", "unpack host helper: EOF"},
		{"unknown", nil, "riscv64", "", `there is no host helper for the architecture "riscv64": hosts are amd64 or arm64`},
		{"no word", nil, "../x", "", `there is no host helper for the architecture "../x": hosts are amd64 or arm64`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := from(tt.files, tt.goarch)
			if string(got) != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
