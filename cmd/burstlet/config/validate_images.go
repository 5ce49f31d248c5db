package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
	if i.NodeStatusMaxImages < minStatusImages {
		wrong("nodeStatusMaxImages", i.NodeStatusMaxImages, "must be -1 or greater")
	}
	return errs
}
