package basecluster

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/burstlet/burstlet/test/parts/binaries"
	"github.com/burstlet/burstlet/test/parts/controlplane/cptest"
	"github.com/burstlet/burstlet/test/parts/images"
)

const (
	dnsName     = "coredns"
	metricsName = "metrics-server"
	// imagePlace, in manifests, stands for the image of the program.
	imagePlace = "IMAGE"
)

//go:embed coredns.yaml
var dnsManifests string

//go:embed metrics-server.yaml
var metricsManifests string

// startDNS begins to roll CoreDNS out.
func (c *Cluster) startDNS(t testing.TB, program string) {
	t.Helper()
	c.addOn(t, binaries.CoreDNS, program, dnsManifests)
}

// ServeMetrics rolls metrics-server out: kubectl top and autoscalers then know what
// pods of all nodes use. It skips the test when the program is not built.
func (c *Cluster) ServeMetrics(t testing.TB) {
	t.Helper()
	c.addOn(t, binaries.MetricsServer, cptest.Tool(t, binaries.MetricsServer), metricsManifests)
	c.AwaitDeployment(t, metav1.NamespaceSystem, metricsName)
	// Discovery of all else fails until it is there.
	Await(t, "the metrics API", func(context.Context) error {
		_, _, err := c.Client.Discovery().ServerGroupsAndResources()
		if err != nil {
			return err
		}
		_, err = c.Client.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
		return err
	})
}

// addOn imports a program as an image and applies its manifests.
func (c *Cluster) addOn(t testing.TB, tool binaries.Tool, program, manifests string) {
	t.Helper()
	version, err := tool.Version()
	if err != nil {
		t.Fatal(err)
	}
	image, err := ProgramImage(program)
	if err != nil {
		t.Fatal(err)
	}
	ref := fmt.Sprintf("registry.burstlet.test/%s:%s", tool, version)
	c.Import(t, map[string]v1.Image{ref: image})
	c.Apply(t, strings.ReplaceAll(manifests, imagePlace, ref))
}

// ProgramImage is busybox with programs of this machine in /bin, and with what they
// are linked to; the first is its entrypoint.
func ProgramImage(programs ...string) (v1.Image, error) {
	files, err := images.Programs(programs...)
	if err != nil {
		return nil, err
	}
	layer, err := images.Layer(files...)
	if err != nil {
		return nil, err
	}
	return images.Derive(v1.Config{Entrypoint: []string{"/" + files[0].Path}}, layer)
}
