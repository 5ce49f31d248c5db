package backendtest

import (
	"reflect"
	"slices"

	"github.com/burstlet/burstlet/backend"
)

// lendsCheck is run whatever else is chosen.
const lendsCheck = "lends/what is declared"

// lendsAsDeclared compares the fields that are not nil with those of Factory.Lends.
func lendsAsDeclared(s *suite) {
	lent := lentBy(s.Backend)
	for _, name := range s.f.Lends {
		if !slices.Contains(lent, name) {
			s.Errorf("%s is declared in Factory.Lends, and not lent", name)
		}
	}
	for _, name := range lent {
		if !slices.Contains(s.f.Lends, name) {
			s.Errorf("%s is lent, and not declared in Factory.Lends", name)
		}
	}
}

// lentBy names the fields that are not nil, of those that may be.
func lentBy(b backend.Backend) (names []string) {
	v := reflect.ValueOf(b)
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		switch name {
		case "Pods", "Node", "Check": // every backend has them
			continue
		}
		if kind := field.Kind(); (kind == reflect.Interface || kind == reflect.Func) && !field.IsNil() {
			names = append(names, name)
		}
	}
	return names
}
