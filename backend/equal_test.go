package backend

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/burstlet/burstlet/test/kit/filled"
)

// TestEqualSeesEveryField changes one value after the other, those of new fields with them: the
// engine does not look at facts again that it takes for the same.
func TestEqualSeesEveryField(t *testing.T) {
	t.Parallel()
	facts := func() *PodFacts {
		return new(filled.Of[PodFacts](t, func(v reflect.Value) bool {
			quantity := v.Type() == reflect.TypeFor[resource.Quantity]()
			if quantity {
				v.Set(reflect.ValueOf(resource.MustParse("1500m")))
			}
			return quantity
		}))
	}
	a, b := facts(), facts()
	if !a.Equal(b) || !new(PodFacts).Equal(new(PodFacts)) {
		t.Fatal("two that say the same are not equal")
	}
	if a.Equal(new(PodFacts)) || new(PodFacts).Equal(a) {
		t.Error("a filled one equals an empty one")
	}
	places := 0
	root := reflect.ValueOf(b).Elem()
	eachValue("PodFacts", root, root.Set, func(at string, v reflect.Value, set func(reflect.Value)) {
		places++
		was := reflect.ValueOf(v.Interface())
		set(changed(t, was))
		if a.Equal(b) || b.Equal(a) {
			t.Errorf("a change of %s is not seen", at)
		}
		set(was)
		if !a.Equal(b) {
			t.Fatalf("%s was not set back", at)
		}
	})
	if places < 50 {
		t.Errorf("%d values were changed, want all", places)
	}
}

// eachValue visits each value under v, with what sets it; pointers, lists and maps also as a
// whole.
func eachValue(
	at string, v reflect.Value, set func(reflect.Value), visit func(at string, v reflect.Value, set func(reflect.Value)),
) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time](), v.Type() == reflect.TypeFor[resource.Quantity]():
		visit(at, v, set)
		return
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			eachValue(at+"."+v.Type().Field(i).Name, v.Field(i), v.Field(i).Set, visit)
		}
		return
	}
	switch v.Kind() { //nolint:exhaustive // others have nothing under them
	case reflect.Pointer:
		eachValue(at+"'s value", v.Elem(), v.Elem().Set, visit)
	case reflect.Slice:
		for i := range v.Len() {
			eachValue(fmt.Sprintf("%s[%d]", at, i), v.Index(i), v.Index(i).Set, visit)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			put := func(value reflect.Value) { v.SetMapIndex(key, value) }
			eachValue(fmt.Sprintf("%s[%q]", at, key), v.MapIndex(key), put, visit)
		}
	}
	visit(at, v, set)
}

// changed is another value of the type of v.
func changed(t *testing.T, v reflect.Value) reflect.Value {
	t.Helper()
	out := reflect.New(v.Type()).Elem()
	switch was := v.Interface().(type) {
	case time.Time:
		return reflect.ValueOf(was.Add(time.Nanosecond))
	case resource.Quantity:
		return reflect.ValueOf(resource.MustParse("1501m"))
	}
	switch v.Kind() {
	case reflect.Bool:
		out.SetBool(!v.Bool())
	case reflect.String:
		out.SetString(v.String() + "x")
	case reflect.Int, reflect.Int32, reflect.Int64:
		out.SetInt(v.Int() + 1)
	case reflect.Uint64:
		out.SetUint(v.Uint() + 1)
	case reflect.Pointer, reflect.Slice, reflect.Map: // nil
	default:
		t.Fatalf("no other value of type %s is known", v.Type())
	}
	return out
}

// TestEqualIsOfMeaning: the same instant and amount, written otherwise, are no change.
func TestEqualIsOfMeaning(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a := &PodFacts{CreatedAt: now, IPs: []string{}, Containers: []ContainerFacts{{StartedAt: now}}}
	b := &PodFacts{CreatedAt: now.Round(0).UTC(), Containers: []ContainerFacts{{StartedAt: now.UTC()}}}
	if !a.Equal(b) {
		t.Errorf("%+v and %+v are not equal", a, b)
	}
}
