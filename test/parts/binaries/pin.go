package binaries

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// PinConfig names the versions to pin.
type PinConfig struct {
	// Dir is where the module files are written: this package's directory.
	Dir string
	// Kubernetes, Etcd, MetricsServer, Helm, CoreDNS, Containerd17 and Containerd2 are
	// module versions, such as v1.36.3, v3.6.8, v0.9.0, v4.3.1, v1.14.2, v1.7.35 and
	// v2.4.2. Empty: that version stays as it is.
	Kubernetes, Etcd, MetricsServer, Helm, CoreDNS, Containerd17, Containerd2 string
	// OtherKubernetes are the versions of the API servers of [OtherKubernetes], such as
	// v1.34.4.
	OtherKubernetes []string
	// Log receives what the go command prints. Nil: nothing is written.
	Log io.Writer
}

// Pin writes the module files that fix what is built. It needs the module
// proxy or a filled module cache; see doc.go.
func Pin(ctx context.Context, cfg PinConfig) error {
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	kubernetes, err := cfg.kubernetes()
	if err != nil {
		return err
	}
	wanted := append(kubernetes, pin{tool: Etcd, version: cfg.Etcd},
		pin{tool: Containerd17, version: cfg.Containerd17}, pin{tool: Containerd2, version: cfg.Containerd2})
	for _, version := range cfg.OtherKubernetes {
		minor := strings.TrimPrefix(version[:max(0, strings.LastIndex(version, "."))], "v")
		tool, known := OtherKubernetes()[minor]
		if !known {
			return fmt.Errorf("pin Kubernetes %s: tool.go names no API server of %q", version, minor)
		}
		wanted = append(wanted, pin{tool: tool, version: version})
	}
	for _, p := range wanted {
		if p.version == "" {
			continue
		}
		if err := p.write(ctx, cfg); err != nil {
			return fmt.Errorf("pin %s %s: %w", p.tool.pinName(), p.version, err)
		}
	}
	return nil
}

// kubernetes is the pin of Kubernetes and of what is built with its libraries; none where
// all of them stay as they are.
func (cfg PinConfig) kubernetes() ([]pin, error) {
	group := []pin{
		{tool: KubeAPIServer, version: cfg.Kubernetes},
		{tool: CoreDNS, version: cfg.CoreDNS},
		{tool: MetricsServer, version: cfg.MetricsServer},
		{tool: Helm, version: cfg.Helm},
	}
	if !slices.ContainsFunc(group, func(p pin) bool { return p.version != "" }) {
		return nil, nil
	}
	for i, p := range group {
		if p.version != "" {
			continue
		}
		var err error
		if group[i].version, err = p.tool.Version(); err != nil {
			return nil, fmt.Errorf("pin Kubernetes: %w", err)
		}
	}
	return []pin{{tool: group[0].tool, version: group[0].version, beside: group[1:]}}, nil
}

// pin is a version of the module that a tool, and others beside it, are built from.
type pin struct {
	tool    Tool
	version string
	// beside are tools of other modules that are built with the libraries of this one.
	beside []pin
}

// write writes the module files.
func (p pin) write(ctx context.Context, cfg PinConfig) (err error) {
	scratch, err := os.MkdirTemp("", "burstlet-pin-")
	if err != nil {
		return fmt.Errorf("make scratch directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	up, err := upstreamModule(ctx, scratch, cfg.Log, p.tool.module(), p.version)
	if err != nil {
		return err
	}
	if len(p.beside) > 0 {
		// What the module is built with alone, it is built with beside others, too.
		alone := pin{tool: p.tool, version: p.version}
		if err := alone.resolve(ctx, scratch, cfg.Log, up); err != nil {
			return err
		}
		resolved, err := readModule(ctx, scratch, cfg.Log, filepath.Join(scratch, "go.mod"))
		if err != nil {
			return err
		}
		up.libraries = resolved.Require
	}
	if err := p.resolve(ctx, scratch, cfg.Log, up); err != nil {
		return err
	}
	name := p.tool.pinName()
	for from, to := range map[string]string{"go.mod": name + ".mod", "go.sum": name + ".sum"} {
		data, err := os.ReadFile(filepath.Join(scratch, from))
		if err != nil {
			return fmt.Errorf("read tidied module: %w", err)
		}
		if err := os.WriteFile(filepath.Join(cfg.Dir, to), data, 0o644); err != nil {
			return fmt.Errorf("write pin: %w", err)
		}
	}
	return nil
}

// resolve writes a build module to a directory, with all that its programs import.
func (p pin) resolve(ctx context.Context, dir string, log io.Writer, up upstream) error {
	mod, err := p.moduleFile(up)
	if err != nil {
		return err
	}
	var (
		main     []byte
		packages []string
	)
	for _, t := range p.tools() {
		packages = append(packages, t.pkg())
		source, err := t.mainSource()
		if err != nil {
			return err
		}
		if source != nil {
			main = source
		}
	}
	if err := writeModule(dir, mod, nil, main); err != nil {
		return err
	}
	// Tests of libraries, which are not built, may import what the versions here do not have.
	if err := runGo(ctx, dir, log, nil, "mod", "tidy", "-e"); err != nil {
		return err
	}
	return runGo(ctx, dir, log, io.Discard, append([]string{"list", "-deps", "-mod=readonly"}, packages...)...)
}

// tools are all that are built from the pin.
func (p pin) tools() []Tool {
	modules := map[string]bool{p.tool.module(): true}
	for _, other := range p.beside {
		modules[other.tool.module()] = true
	}
	return slices.DeleteFunc(All(), func(t Tool) bool { return t.pinName() != p.tool.pinName() || !modules[t.module()] })
}

// upstream is the part of `go mod edit -json` that is used.
type upstream struct {
	Go      string
	Require []required
	Replace []struct {
		Old, New struct{ Path string }
	}
	// libraries are the versions that everything is built with, whatever it requires itself.
	libraries []required
}

// required is a module and its version.
type required struct{ Path, Version string }

// upstreamModule reads the go.mod of a published module.
func upstreamModule(ctx context.Context, scratch string, log io.Writer, module, version string) (upstream, error) {
	var out bytes.Buffer
	if err := runGo(ctx, scratch, log, &out, "mod", "download", "-json", module+"@"+version); err != nil {
		return upstream{}, err
	}
	var download struct{ GoMod string }
	if err := json.Unmarshal(out.Bytes(), &download); err != nil {
		return upstream{}, fmt.Errorf("read download of %s: %w", module, err)
	}
	return readModule(ctx, scratch, log, download.GoMod)
}

// readModule reads a go.mod.
func readModule(ctx context.Context, scratch string, log io.Writer, file string) (upstream, error) {
	var out bytes.Buffer
	if err := runGo(ctx, scratch, log, &out, "mod", "edit", "-json", file); err != nil {
		return upstream{}, err
	}
	var up upstream
	if err := json.Unmarshal(out.Bytes(), &up); err != nil {
		return upstream{}, fmt.Errorf("read %s: %w", file, err)
	}
	return up, nil
}

// moduleFile writes the go.mod of a build module: the tools that are built from it, every
// staging directory replaced by its published module, and every library by the version to
// build with.
func (p pin) moduleFile(up upstream) ([]byte, error) {
	var b, tools bytes.Buffer
	for _, t := range p.tools() {
		if t.pkg() != ownPackage {
			fmt.Fprintf(&tools, "\t%s\n", t.pkg())
		}
	}
	fmt.Fprintf(&b, "module burstlet.test/%s\n\ngo %s\n\n", p.tool.pinName(), up.Go)
	fmt.Fprintf(&b, "tool (\n%s)\n\n", &tools)
	for _, q := range append([]pin{p}, p.beside...) {
		fmt.Fprintf(&b, "require %s %s\n", q.tool.module(), q.version)
	}
	b.WriteByte('\n')
	staged := map[string]bool{p.tool.module(): true}
	for _, r := range up.Replace {
		if p.tool.module() != kubernetesModule || !strings.HasPrefix(r.New.Path, "./staging/") {
			continue
		}
		rest, ok := strings.CutPrefix(p.version, "v1.")
		if !ok {
			return nil, fmt.Errorf("staging modules of %s are unknown: want a version v1.x.y", p.version)
		}
		staged[r.Old.Path] = true
		fmt.Fprintf(&b, "replace %s => %s v0.%s\n", r.Old.Path, r.Old.Path, rest)
	}
	for _, l := range up.libraries {
		if !staged[l.Path] {
			fmt.Fprintf(&b, "replace %s => %s %s\n", l.Path, l.Path, l.Version)
		}
	}
	return b.Bytes(), nil
}
