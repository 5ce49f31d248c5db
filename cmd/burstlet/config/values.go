package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/backend/cri/criconfig"
)

// Duration is a length of time, in a file as in 10s or 1m30s.
type Duration struct{ time.Duration }

// UnmarshalJSON reads a string.
func (d *Duration) UnmarshalJSON(data []byte) error {
	parsed, err := time.ParseDuration(unquoted(data))
	if err != nil || data[0] != '"' {
		return wrongType[Duration](data)
	}
	d.Duration = parsed
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// Quantity is an amount of a resource, in a file as in 4, 500m or 16Gi.
type Quantity struct{ resource.Quantity }

// UnmarshalJSON reads a number or a string.
func (q *Quantity) UnmarshalJSON(data []byte) error {
	text := unquoted(data)
	parsed, err := resource.ParseQuantity(text)
	if err != nil || !strings.ContainsAny(text, "0123456789") { // "-" is parsed as 0
		return wrongType[Quantity](data)
	}
	q.Quantity = parsed
	return nil
}

// wrongType is the error that a decoder completes with the path of the field,
// which a value that reads itself does not know.
func wrongType[T any](data []byte) error {
	return &json.UnmarshalTypeError{Value: fmt.Sprintf("%.64s", data), Type: reflect.TypeFor[T]()}
}

func unquoted(data []byte) string { return strings.Trim(string(data), `"`) }

// ResourceList returns the resources that are given.
func (c Capacity) ResourceList() corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, quantity := range c.byName() {
		if quantity != nil {
			list[name] = quantity.DeepCopy()
		}
	}
	return list
}

// ResourceList returns what is given and not 0.
func (r SystemReserved) ResourceList() corev1.ResourceList {
	var list corev1.ResourceList
	for name, quantity := range r.byName() {
		if quantity == nil || quantity.IsZero() {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = quantity.DeepCopy()
	}
	return list
}

func (r SystemReserved) byName() map[corev1.ResourceName]*Quantity {
	return map[corev1.ResourceName]*Quantity{
		corev1.ResourceCPU: r.CPU, corev1.ResourceMemory: r.Memory, corev1.ResourceEphemeralStorage: r.EphemeralStorage,
		criconfig.ReservedPIDs: r.PID,
	}
}

func (c Capacity) byName() map[corev1.ResourceName]*Quantity {
	return map[corev1.ResourceName]*Quantity{
		corev1.ResourceCPU: c.CPU, corev1.ResourceMemory: c.Memory, corev1.ResourcePods: c.Pods,
		corev1.ResourceEphemeralStorage: c.EphemeralStorage,
	}
}
