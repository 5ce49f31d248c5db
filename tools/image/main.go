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

// repository is where the images of releases are; taskSuffix ends the name of that of
// tasks, and of its archive.
const (
	repository = "ghcr.io/burstlet/burstlet"
	taskSuffix = "-task"
)

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
	// mainOnly leaves out the image of tasks.
	mainOnly bool
}

func newCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make burstlet's container images: OCI archives, and pushes",
		Long: `Make burstlet's container images without a container engine: burstlet's own, and
beside it that of tasks on ECS, burstlet-task alone, whose names end with -task.

An archive is read by "ctr images import", "podman load", "skopeo copy
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
	flags.StringVar(
		&o.out, "out", "bin/burstlet-image.tar",
		"the OCI archive to write, and beside it that of tasks, NAME"+taskSuffix+".tar; empty for none",
	)
	flags.StringVar(
		&o.name, "name", "", "full name with tag that the archive gives the image (default: "+repository+":VERSION)",
	)
	flags.StringVar(&o.version, "version", "devel", "version of burstlet")
	flags.StringSliceVar(
		&o.platforms, "platform", []string{"linux/amd64", "linux/arm64"}, "what to build for; may be repeated",
	)
	flags.StringSliceVar(&o.push, "push", nil, "full name with tag to push to; may be repeated")
	flags.BoolVar(&o.mainOnly, "main-only", false, "do not make the image of tasks")
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

// output is an image on its way to where it is used.
type output struct {
	kind kind
	// archive is the file to write, empty for none; tag is the image's name in it.
	archive string
	tag     name.Tag
	pushes  []name.Tag
}

// run does what the options say and tells what came out.
func (o options) run(ctx context.Context, out io.Writer, rel release, compile compiler) error {
	if o.out == "" && len(o.push) == 0 {
		return errors.New("there is nothing to do: --out or --push is needed")
	}
	outputs, err := o.outputs()
	if err != nil {
		return err
	}
	var kinds []kind
	for _, p := range outputs {
		kinds = append(kinds, p.kind)
	}
	indexes, err := buildIndexes(ctx, rel, o.platforms, compile, kinds...)
	if err != nil {
		return err
	}
	for i, p := range outputs {
		if err := p.write(ctx, out, indexes[i]); err != nil {
			return err
		}
	}
	return nil
}

// write writes and pushes an image.
func (p output) write(ctx context.Context, out io.Writer, index v1.ImageIndex) error {
	if err := tell(out, index); err != nil {
		return err
	}
	if p.archive != "" {
		if err := os.MkdirAll(filepath.Dir(p.archive), 0o755); err != nil {
			return fmt.Errorf("make the archive's directory: %w", err)
		}
		if err := writeArchive(p.archive, index, p.tag); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s holds %s\n", p.archive, p.tag); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	for _, to := range p.pushes {
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

// outputs are the images to make, their names looked at before minutes are spent on a
// build. That of tasks comes first: where burstlet's is, the other is too.
func (o options) outputs() ([]output, error) {
	named := o.name
	if named == "" {
		named = repository + ":" + o.version
	}
	var tags []name.Tag
	for _, full := range append([]string{named}, o.push...) {
		tag, err := name.NewTag(full, name.StrictValidation)
		if err != nil {
			return nil, fmt.Errorf("the name %q is not REGISTRY/REPOSITORY:TAG: %w", full, err)
		}
		tags = append(tags, tag)
	}
	own := output{kind: mainKind, archive: o.out, tag: tags[0], pushes: tags[1:]}
	if o.mainOnly {
		return []output{own}, nil
	}
	task := output{kind: taskKind}
	if o.out != "" {
		task.archive = strings.TrimSuffix(o.out, ".tar") + taskSuffix + ".tar"
	}
	for i, tag := range tags {
		beside, err := name.NewTag(
			strings.TrimSuffix(tag.String(), ":"+tag.TagStr())+taskSuffix+":"+tag.TagStr(), name.StrictValidation,
		)
		if err != nil {
			return nil, fmt.Errorf("name the image of tasks beside %s: %w", tag, err)
		}
		if i == 0 {
			task.tag = beside
		} else {
			task.pushes = append(task.pushes, beside)
		}
	}
	return []output{task, own}, nil
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
		lines = append(
			lines, fmt.Sprintf("%s %s, %.1f MiB to pull", m.Platform, m.Digest, float64(pullSize(content))/(1<<20)),
		)
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
