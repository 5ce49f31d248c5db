package config

import (
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Images says which images leave the remote's disk, and which plugins have logins for
// them; the names are the kubelet's.
type Images struct {
	// GCHighThresholdPercent of the disk that images stand on, when it is in use,
	// begins the removal of images that no container uses and no pod of the node
	// wants, those unused for longest first (the kubelet's
	// imageGCHighThresholdPercent); default 85. 100: the disk never does.
	GCHighThresholdPercent int `json:"imageGCHighThresholdPercent"`
	// GCLowThresholdPercent is where that ends (imageGCLowThresholdPercent); default
	// 80. It must be less than the high one.
	GCLowThresholdPercent int `json:"imageGCLowThresholdPercent"`
	// MinimumGCAge is how long an image is known before it may go to make room
	// (imageMinimumGCAge); default 2m.
	MinimumGCAge Duration `json:"imageMinimumGCAge"`
	// MaximumGCAge is how long an image that nobody uses may stay, whatever the disk
	// (imageMaximumGCAge); default 0s, for ever. It must be longer than MinimumGCAge.
	// The time is counted from the start of this process.
	MaximumGCAge Duration `json:"imageMaximumGCAge"`
	// NodeStatusMaxImages is how many images the Node's status names, the largest
	// ones (nodeStatusMaxImages); default 50, -1 all. It ends at 128 KiB.
	NodeStatusMaxImages int `json:"nodeStatusMaxImages"`
	// CredentialProviderConfigFile is a CredentialProviderConfig of
	// kubelet.config.k8s.io/v1, or a directory of such files: plugins that are asked for
	// the logins of images, after the pod's pull secrets (the kubelet's
	// --image-credential-provider-config). They run beside this process, not on a host.
	// tokenAttributes want rights of the node. Empty: none. Not for ecs, where Fargate pulls.
	CredentialProviderConfigFile string `json:"imageCredentialProviderConfigFile"`
	// CredentialProviderBinDir is the directory of the plugins' programs
	// (--image-credential-provider-bin-dir).
	CredentialProviderBinDir string `json:"imageCredentialProviderBinDir"`
}

// validate judges as the kubelet does.
func (i *Images) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	wrong := func(name string, value any, why string) {
		errs = append(errs, field.Invalid(at.Child(name), value, why))
	}
	for _, threshold := range []struct {
		name  string
		value int
	}{{"imageGCHighThresholdPercent", i.GCHighThresholdPercent}, {"imageGCLowThresholdPercent", i.GCLowThresholdPercent}} {
		if threshold.value < minPercent || threshold.value > maxPercent {
			wrong(threshold.name, threshold.value, "must be between 0 and 100, inclusive")
		}
	}
	if i.GCLowThresholdPercent >= i.GCHighThresholdPercent {
		wrong("imageGCLowThresholdPercent", i.GCLowThresholdPercent,
			fmt.Sprintf("must be less than imageGCHighThresholdPercent %d", i.GCHighThresholdPercent))
	}
	minimum, maximum := i.MinimumGCAge.Duration, i.MaximumGCAge.Duration
	if minimum < 0 {
		wrong("imageMinimumGCAge", minimum.String(), "must not be negative")
	}
	switch {
	case maximum < 0:
		wrong("imageMaximumGCAge", maximum.String(), "must not be negative")
	case maximum > 0 && maximum <= minimum:
		wrong("imageMaximumGCAge", maximum.String(), fmt.Sprintf("must be greater than imageMinimumGCAge %s", minimum))
	}
	for _, file := range []struct{ name, path string }{
		{"imageCredentialProviderConfigFile", i.CredentialProviderConfigFile},
		{"imageCredentialProviderBinDir", i.CredentialProviderBinDir},
	} {
		switch {
		case file.path != "" && !filepath.IsAbs(file.path):
			wrong(file.name, file.path, "must be an absolute path")
		case file.path == "" && i.CredentialProviderConfigFile+i.CredentialProviderBinDir != "":
			errs = append(
				errs,
				field.Required(
					at.Child(file.name), "imageCredentialProviderConfigFile and imageCredentialProviderBinDir need each other",
				),
			)
		}
	}
	if i.NodeStatusMaxImages < minStatusImages {
		wrong("nodeStatusMaxImages", i.NodeStatusMaxImages, "must be -1 or greater")
	}
	return errs
}
