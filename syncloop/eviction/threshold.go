package eviction

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultPressureTransitionPeriod is how long a condition of the node stays after its last
// threshold was met (kubelet: evictionPressureTransitionPeriod).
const DefaultPressureTransitionPeriod = 5 * time.Minute

// DefaultHard are a kubelet's thresholds where none are configured.
func DefaultHard() map[string]string {
	return map[string]string{
		string(MemoryAvailable):   "100Mi",
		string(NodeFSAvailable):   "10%",
		string(NodeFSInodesFree):  "5%",
		string(ImageFSAvailable):  "15%",
		string(ImageFSInodesFree): "5%",
	}
}

// Settings are thresholds as they are configured, with a kubelet's names and syntax.
type Settings struct {
	// Hard thresholds are acted on at once; Soft ones once they were met for as long as
	// SoftGracePeriod says.
	Hard, Soft, SoftGracePeriod map[string]string
	// MinimumReclaim is how much more than the threshold is to be had back.
	MinimumReclaim map[string]string
}

// Threshold says when a signal is acted on.
type Threshold struct {
	Signal Signal
	Value  Value
	// Grace is how long it must be met; 0: a hard one.
	Grace time.Duration
	// Reclaim is what is wanted back beyond Value; nil: nothing.
	Reclaim *Value
}

// Hard is true of a threshold that is acted on at once.
func (t *Threshold) Hard() bool { return t.Grace == 0 }

// Value is a quantity, or a share of the capacity.
type Value struct {
	Quantity *resource.Quantity
	// Share of the capacity, from 0 to 1, where Quantity is nil. The kubelet's arithmetic
	// is of this width, too.
	Share float32
}

// of is the value of a capacity.
func (v Value) of(capacity uint64) resource.Quantity {
	if v.Quantity != nil {
		return v.Quantity.DeepCopy()
	}
	return *resource.NewQuantity(int64(float64(capacity)*float64(v.Share)), resource.BinarySI)
}

// Parse returns the thresholds in the order of [Signals], hard ones first, and everything
// that is wrong with them by its path below at (kubelet: ParseThresholdConfig). A hard
// threshold of memory.available holds for what pods may have together, too.
func Parse(at *field.Path, s Settings) ([]Threshold, field.ErrorList) {
	var errs field.ErrorList
	hard := parseAll(at.Child("evictionHard"), s.Hard, threshold, &errs)
	soft := parseAll(at.Child("evictionSoft"), s.Soft, threshold, &errs)
	grace := parseAll(at.Child("evictionSoftGracePeriod"), s.SoftGracePeriod, period, &errs)
	reclaim := parseAll(at.Child("evictionMinimumReclaim"), s.MinimumReclaim, reclaimed, &errs)
	var out []Threshold
	add := func(signal Signal, value *Value, grace time.Duration) {
		t := Threshold{Signal: signal, Value: *value, Grace: grace}
		if r := reclaim[signal]; r != nil {
			t.Reclaim = *r
		}
		out = append(out, t)
	}
	for _, signal := range Signals() {
		if v := hard[signal]; v != nil && *v != nil {
			add(signal, *v, 0)
		} else if v := hard[MemoryAvailable]; signal == AllocatableMemoryAvailable && v != nil && *v != nil {
			add(signal, *v, 0)
		}
		v := soft[signal]
		if v == nil || *v == nil {
			continue
		}
		g := grace[signal]
		switch {
		case g == nil && s.SoftGracePeriod[string(signal)] == "":
			errs = append(errs, field.Required(at.Child("evictionSoftGracePeriod").Key(string(signal)),
				"grace period must be specified for the soft eviction threshold "+string(signal)))
		case g != nil:
			add(signal, *v, *g)
		}
	}
	return out, errs
}

// parseAll reads a value for each signal; nil stands where there is none.
func parseAll[T any](
	at *field.Path, values map[string]string, parse func(string) (T, error), errs *field.ErrorList,
) map[Signal]*T {
	out := map[Signal]*T{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		key, signal := at.Key(name), Signal(name)
		if strings.HasPrefix(name, "containerfs.") {
			*errs = append(*errs, field.Forbidden(key,
				"a kubelet takes the thresholds of nodefs, or those of imagefs where images stand on a file system of their "+
					"own: leave it out"))
			continue
		}
		if !signal.known() {
			*errs = append(*errs, field.NotSupported(key, name, Signals()))
			continue
		}
		v, err := parse(values[name])
		if err != nil {
			*errs = append(*errs, field.Invalid(key, values[name], err.Error()))
			continue
		}
		out[signal] = &v
	}
	return out
}

// threshold reads one; nil is none: 0% and 100% turn it off.
func threshold(text string) (*Value, error) {
	if text == "0%" || text == "100%" {
		return nil, nil
	}
	v, err := value(text)
	switch {
	case err != nil:
		return nil, err
	case v.Quantity == nil && (v.Share < 0 || v.Share > 1):
		return nil, fmt.Errorf("must be between 0%% and 100%%")
	case v.Quantity != nil && v.Quantity.Sign() <= 0:
		return nil, fmt.Errorf("must be positive")
	}
	return v, nil
}

func reclaimed(text string) (*Value, error) {
	v, err := value(text)
	switch {
	case err != nil:
		return nil, err
	case v.Quantity == nil && v.Share <= 0:
		return nil, fmt.Errorf("must be positive")
	case v.Quantity != nil && v.Quantity.Sign() < 0:
		return nil, fmt.Errorf("must not be negative")
	}
	return v, nil
}

func value(text string) (*Value, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 32)
		if err != nil || percent != percent { // NaN
			return nil, fmt.Errorf("must be a quantity, as in 100Mi, or a percentage, as in 10%%")
		}
		return &Value{Share: float32(percent) / 100}, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return nil, fmt.Errorf("must be a quantity, as in 100Mi, or a percentage, as in 10%%: %w", err)
	}
	return &Value{Quantity: &q}, nil
}

func period(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("must be a duration, as in 1m30s")
	case d < 0:
		return 0, fmt.Errorf("must not be negative")
	}
	return d, nil
}
