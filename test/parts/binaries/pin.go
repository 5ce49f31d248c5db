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
	// Log receives what the go command prints. Nil: nothing is written.
	Log io.Writer
}

// Pin writes the module files that fix what is built. It needs the module
// proxy or a filled module cache; see doc.go.
func Pin(ctx context.Context, cfg PinConfig) error {
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	for _, m := range []struct{ module, version string }{
		{kubernetesModule, cfg.Kubernetes},
		{etcdModule, cfg.Etcd},
		{metricsServerModule, cfg.MetricsServer},
		{helmModule, cfg.Helm},
		{coreDNSModule, cfg.CoreDNS},
		{containerd17Module, cfg.Containerd17},
		{containerd2Module, cfg.Containerd2},
	} {
		if m.version == "" {
			continue
		}
		if err := pinModule(ctx, cfg, m.module, m.version); err != nil {
			return fmt.Errorf("pin %s %s: %w", m.module, m.version, err)
		}
	}
	return nil
}

func pinModule(ctx context.Context, cfg PinConfig, module, version string) (err error) {
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
	mod, name, err := moduleFile(up, module, version)
	if err != nil {
		return err
	}
	main, err := Tool(name).mainSource()
	if err != nil {
		return err
	}
	if err := writeModule(scratch, mod, nil, main); err != nil {
		return err
	}
	if err := runGo(ctx, scratch, cfg.Log, nil, "mod", "tidy"); err != nil {
		return err
	}
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
// module, and every staging directory replaced by its published module. It also
// returns the base name of the pin.
func moduleFile(up upstream, module, version string) (mod []byte, name string, err error) {
	var b, tools bytes.Buffer
	for _, t := range All() {
		if t.module() != module {
			continue
		}
		name = t.pinName()
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
			return nil, "", fmt.Errorf("staging modules of %s are unknown: want a version v1.x.y", release)
		}
		fmt.Fprintf(&b, "replace %s => %s v0.%s\n", r.Old.Path, r.Old.Path, rest)
	}
	return b.Bytes(), name, nil
}
