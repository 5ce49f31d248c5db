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
	"strings"
)

// PinConfig names the versions to pin.
type PinConfig struct {
	// Dir is where the module files are written: this package's directory.
	Dir string
	// Kubernetes, Etcd, MetricsServer, Helm, CoreDNS, Containerd17 and Containerd2 are
	// module versions, such as v1.36.3, v3.6.8, v0.9.0, v4.3.1, v1.14.2, v1.7.35 and
	// v2.4.2. Empty: that pin stays as it is; only metrics-server and CoreDNS need
	// Kubernetes beside them.
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
	wanted := []pin{
		{KubeAPIServer, cfg.Kubernetes},
		{Etcd, cfg.Etcd},
		{MetricsServer, cfg.MetricsServer},
		{Helm, cfg.Helm},
		{CoreDNS, cfg.CoreDNS},
		{Containerd17, cfg.Containerd17},
		{Containerd2, cfg.Containerd2},
	}
	for _, version := range cfg.OtherKubernetes {
		minor := strings.TrimPrefix(version[:max(0, strings.LastIndex(version, "."))], "v")
		tool, known := OtherKubernetes()[minor]
		if !known {
			return fmt.Errorf("pin Kubernetes %s: tool.go names no API server of %q", version, minor)
		}
		wanted = append(wanted, pin{tool, version})
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

// pin is a version of the module that a tool, and others beside it, are built from.
type pin struct {
	tool    Tool
	version string
}

// write writes the module files.
func (p pin) write(ctx context.Context, cfg PinConfig) (err error) {
	module, version := p.tool.module(), p.version
	scratch, err := os.MkdirTemp("", "burstlet-pin-")
	if err != nil {
		return fmt.Errorf("make scratch directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	up, err := upstreamModule(ctx, scratch, cfg.Log, module, version)
	if err != nil {
		return err
	}
	if module == metricsServerModule || module == coreDNSModule { // with the libraries that the others have
		kubernetes, err := upstreamModule(ctx, scratch, cfg.Log, kubernetesModule, cfg.Kubernetes)
		if err != nil {
			return err
		}
		up.Replace, up.kubernetes = kubernetes.Replace, cfg.Kubernetes
	}
	mod, err := p.moduleFile(up)
	if err != nil {
		return err
	}
	main, err := p.tool.mainSource()
	if err != nil {
		return err
	}
	if err := writeModule(scratch, mod, nil, main); err != nil {
		return err
	}
	if err := runGo(ctx, scratch, cfg.Log, nil, "mod", "tidy"); err != nil {
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

// upstream is the part of `go mod edit -json` that is used.
type upstream struct {
	Go      string
	Replace []struct {
		Old, New struct{ Path string }
	}
	// kubernetes is the version of Kubernetes whose staging modules Replace
	// names, where that is not the module's own.
	kubernetes string
}

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
	out.Reset()
	if err := runGo(ctx, scratch, log, &out, "mod", "edit", "-json", download.GoMod); err != nil {
		return upstream{}, err
	}
	var up upstream
	if err := json.Unmarshal(out.Bytes(), &up); err != nil {
		return upstream{}, fmt.Errorf("read go.mod of %s: %w", module, err)
	}
	return up, nil
}

// moduleFile writes the go.mod of a build module: the tools that are built from
// it, and every staging directory replaced by its published module.
func (p pin) moduleFile(up upstream) ([]byte, error) {
	var b, tools bytes.Buffer
	name, module, version := p.tool.pinName(), p.tool.module(), p.version
	for _, t := range All() {
		if t.pinName() != name {
			continue
		}
		if t.pkg() != ownPackage {
			fmt.Fprintf(&tools, "\t%s\n", t.pkg())
		}
	}
	fmt.Fprintf(&b, "module burstlet.test/%s\n\ngo %s\n\n", name, up.Go)
	if tools.Len() > 0 {
		fmt.Fprintf(&b, "tool (\n%s)\n\n", &tools)
	}
	fmt.Fprintf(&b, "require %s %s\n\n", module, version)
	release := up.kubernetes
	if module == kubernetesModule {
		release = version
	}
	for _, r := range up.Replace {
		if release == "" || !strings.HasPrefix(r.New.Path, "./staging/") {
			continue
		}
		rest, ok := strings.CutPrefix(release, "v1.")
		if !ok {
			return nil, fmt.Errorf("staging modules of %s are unknown: want a version v1.x.y", release)
		}
		fmt.Fprintf(&b, "replace %s => %s v0.%s\n", r.Old.Path, r.Old.Path, rest)
	}
	return b.Bytes(), nil
}
