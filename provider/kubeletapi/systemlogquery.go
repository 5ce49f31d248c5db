package kubeletapi

import (
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/burstlet/burstlet/backend"
)

// The kubelet's bounds (kubelet_server_journal.go).
const (
	maxQueryLines       = 100000
	maxQueryServices    = 4
	maxQueryServiceName = 256
)

// unsafeService are characters that names of services do not have.
var unsafeService = regexp.MustCompile(`[^a-zA-Z\-_.:0-9@]+`)

// nodeLogQuery is a query of the host's logs.
type nodeLogQuery struct {
	files, services []string
	backend.SystemLogQuery
}

// parseNodeLogQuery reads the parameters; nil where there is none (kubelet: newNodeLogQuery).
func parseNodeLogQuery(query url.Values) (*nodeLogQuery, field.ErrorList) {
	var q nodeLogQuery
	var errs field.ErrorList
	queries, asked := query["query"]
	for _, word := range queries {
		switch {
		case strings.ContainsAny(word, `/\`):
			q.files = append(q.files, word)
		case strings.TrimSpace(word) != "":
			q.services = append(q.services, word)
		}
	}
	if asked && len(q.files)+len(q.services) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("query"), queries, "may not be empty"))
	}
	for name, into := range map[string]*time.Time{"sinceTime": &q.Since, "untilTime": &q.Until} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, "invalid time format"))
		}
		*into = at
	}
	for name, into := range map[string]**int{"boot": &q.Boot, "tailLines": &q.TailLines} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, err.Error()))
		}
		*into = &n
	}
	q.Pattern = query.Get("pattern")
	if len(errs) > 0 || !asked && !q.hasOptions() {
		return nil, errs
	}
	return &q, nil
}

func (q *nodeLogQuery) hasOptions() bool {
	return !q.Since.IsZero() || !q.Until.IsZero() || q.Boot != nil || q.TailLines != nil || q.Pattern != ""
}

// validate returns what is wrong with a query, but for a file that is not there.
func (q *nodeLogQuery) validate() field.ErrorList {
	at := field.NewPath("query")
	errs := validateServices(q.services, at)
	switch {
	case len(q.files)+len(q.services) == 0:
		errs = append(errs, field.Required(at, "cannot be empty with options"))
	case len(q.files) > 0 && len(q.services) > 0:
		errs = append(
			errs, field.Invalid(at, fmt.Sprintf("%v, %v", q.files, q.services), "cannot specify a file and service"),
		)
	case len(q.files) > 1:
		errs = append(errs, field.Invalid(at, q.files, "cannot specify more than one file"))
	case len(q.files) == 1 && q.hasOptions():
		errs = append(errs, field.Invalid(at, q.files, "cannot specify file with options"))
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && q.Since.After(q.Until) {
		errs = append(errs, field.Invalid(field.NewPath("untilTime"), q.Until, "must be after `sinceTime`"))
	}
	if q.Boot != nil && *q.Boot > 0 {
		errs = append(errs, field.Invalid(field.NewPath("boot"), *q.Boot, "must be less than 1"))
	}
	if q.TailLines != nil {
		for _, why := range validation.IsInRange(*q.TailLines, 0, maxQueryLines) {
			errs = append(errs, field.Invalid(field.NewPath("tailLines"), *q.TailLines, why))
		}
	}
	if _, err := syntax.Parse(q.Pattern, syntax.Perl); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("pattern"), q.Pattern, err.Error()))
	}
	return errs
}

func validateServices(services []string, at *field.Path) (errs field.ErrorList) {
	for _, s := range services {
		switch {
		case len(s) > maxQueryServiceName:
			errs = append(errs, field.Invalid(at, s, fmt.Sprintf("length must be less than %d", maxQueryServiceName)))
		case unsafeService.MatchString(s):
			errs = append(errs, field.Invalid(at, s, "input contains unsupported characters"))
		}
	}
	if len(services) > maxQueryServices {
		errs = append(errs, field.TooMany(at, len(services), maxQueryServices))
	}
	return errs
}
