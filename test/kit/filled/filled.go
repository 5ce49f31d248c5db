// Package filled makes values of which no field is zero, so that a field which an encoding forgets
// shows.
package filled

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// Of is a value each of whose fields is something of its own. Each of special may set a value
// itself, and then returns true.
func Of[T any](t testing.TB, special ...func(reflect.Value) bool) T {
	t.Helper()
	var v T
	Fill(t, reflect.ValueOf(&v).Elem(), special...)
	return v
}

// Fill does that to a value that can be set.
func Fill(t testing.TB, v reflect.Value, special ...func(reflect.Value) bool) {
	t.Helper()
	f := filler{TB: t, special: special}
	f.fill(v)
}

type filler struct {
	testing.TB
	special []func(reflect.Value) bool
	n       int
}

func (f *filler) fill(v reflect.Value) {
	f.Helper()
	f.n++
	for _, set := range f.special {
		if set(v) {
			return
		}
	}
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(int64(1_700_000_000+f.n), 123_456_789).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprint(f.n, "/ü\"\n<\x00", v.Type().Name()))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.n) + 1<<20)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(250 + f.n%6)) //nolint:gosec // small
	case reflect.Float64:
		v.SetFloat(float64(f.n) + .25)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0))
		f.fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key)
		f.fill(value)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	default:
		f.Fatalf("no value of type %s is known", v.Type())
	}
}
