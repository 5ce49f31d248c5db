package conformance

import (
	"regexp"
	"slices"
)

// skipOfFeatures are tests of features that clusters do not have by default, and those that
// change the machine or fail by chance upstream.
const skipOfFeatures = `\[Disruptive\]|\[Flaky\]|\[Feature:OffByDefault\]`

// ofTheHost are tests that ask for the node's API at status.hostIP of a pod. A kubelet runs
// there; burstlet serves it where burstlet runs.
const ofTheHost = `\[FeatureGate:KubeletFineGrainedAuthz\]`

// features are what a node can do beside what all must ([NodeConformance]), with their tests
// in the suite. Others stand in test/e2e_node, whose tests configure and restart the kubelet
// of their own machine: docs/conformance.md names them.
var features = []struct {
	// name is what docs/conformance.md calls it, tests matches the names of its tests.
	name, tests string
}{
	{"restart rules of containers", `Pod Extended \(container restart policy\)`},
	{"RestartAllContainers", `Pod Extended \(RestartAllContainers\)`},
	{"fileKeyRef", `FileKeyRef`},
	{"resources of whole pods", `\[Feature:PodLevelResources\]`},
	{"resize of whole pods", `PLR Pod InPlace Resize`},
	{"resize of containers and init containers", `Pod InPlace Resize (Init )?Container`},
	{"user namespaces", `\[Feature:UserNamespacesSupport\]`},
	{"image volumes", `ImageVolume`},
	{"hostnameOverride", `Override hostname of Pod`},
	{"rights on parts of the kubelet's API", ofTheHost},
}

// featureTests match the tests of all features.
func featureTests() (all []string) {
	for _, f := range features {
		all = append(all, f.tests)
	}
	return all
}

// Expected are those of a features' baseline that burstlet must pass.
func Expected(baseline []string) []string {
	of := regexp.MustCompile(ofTheHost)
	return slices.DeleteFunc(slices.Clone(baseline), of.MatchString)
}
