package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
)

// repository is where the images of releases are.
const repository = "ghcr.io/burstlet/burstlet"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	out, name, version string
	platforms, push    []string
}

func newCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make burstlet's container image: an OCI archive, and a push",
		Long: `Make burstlet's container image without a container engine.

The archive is read by "ctr images import", "podman load", "skopeo copy
oci-archive:", "kind load image-archive" and by "docker load" with the containerd
image store. Pushes use the credentials of "docker login" and "podman login", and
plain HTTP only to registries on this machine and at private numeric addresses.

Files and images have the time of SOURCE_DATE_EPOCH (seconds since 1970), or of
the commit.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.out, "out", "bin/burstlet-image.tar", "the OCI archive to write; empty for none")
	flags.StringVar(&o.name, "name", "", "full name with tag that the archive gives the image (default: "+repository+":VERSION)")
	flags.StringVar(&o.version, "version", "devel", "version of burstlet")
	flags.StringSliceVar(&o.platforms, "platform", []string{"linux/amd64", "linux/arm64"}, "what to build for; may be repeated")
	flags.StringSliceVar(&o.push, "push", nil, "full name with tag to push to; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir, err := moduleDir(cmd.Context())
		if err != nil {
			return err
		}
		rel, err := releaseOf(cmd.Context(), dir, o.version, os.Getenv("SOURCE_DATE_EPOCH"))
		if err != nil {
			return err
		}
		return o.run(cmd.Context(), cmd.OutOrStdout(), rel, goBuild(dir, rel.version))
	}
	return cmd
}

// run does what the options say and tells what came out.
func (o options) run(ctx context.Context, out io.Writer, rel release, compile compiler) error {
	if o.out == "" && len(o.push) == 0 {
		return errors.New("there is nothing to do: --out or --push is needed")
	}
	tag, pushes, err := o.names()
	if err != nil {
		return err
	}
	index, err := buildIndex(ctx, rel, o.platforms, compile)
	if err != nil {
		return err
	}
	if err := tell(out, index); err != nil {
		return err
	}
	if o.out != "" {
		if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
			return fmt.Errorf("make the archive's directory: %w", err)
		}
		if err := writeArchive(o.out, index, tag); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s holds %s\n", o.out, tag); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	for _, to := range pushes {
		pushed, err := push(ctx, index, to)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "pushed %s\n", pushed); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

// names are the image's in the archive and those that it is pushed to, looked at
// before minutes are spent on a build.
func (o options) names() (name.Tag, []name.Tag, error) {
	own := o.name
	if own == "" {
		own = repository + ":" + o.version
	}
	var tags []name.Tag
	for _, full := range append([]string{own}, o.push...) {
		tag, err := name.NewTag(full, name.StrictValidation)
		if err != nil {
			return name.Tag{}, nil, fmt.Errorf("the name %q is not REGISTRY/REPOSITORY:TAG: %w", full, err)
		}
		tags = append(tags, tag)
	}
	return tags[0], tags[1:], nil
}

// tell prints digests, and what each platform has to pull.
func tell(out io.Writer, index v1.ImageIndex) error {
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	lines := []string{fmt.Sprintf("index %s", digest)}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			return fmt.Errorf("read image %s: %w", m.Digest, err)
		}
		content, err := image.Manifest()
		if err != nil {
			return fmt.Errorf("read image %s: %w", m.Digest, err)
		}
		lines = append(lines, fmt.Sprintf("%s %s, %.1f MiB to pull", m.Platform, m.Digest, float64(pullSize(content))/(1<<20)))
	}
	if _, err := fmt.Fprintln(out, strings.Join(lines, "\n")); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func pullSize(manifest *v1.Manifest) int64 {
	size := manifest.Config.Size
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return size
}
