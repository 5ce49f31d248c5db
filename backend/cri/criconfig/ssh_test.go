package criconfig

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestParseEndpoint(t *testing.T) {
	for _, tc := range []struct{ endpoint, want, err string }{
		{"ssh://root@host", "root@host:22", ""},
		{"ssh://root@host:2222", "root@host:2222", ""},
		{"ssh://root@host/", "root@host:22", ""},
		{"ssh://a.b@192.0.2.1:22", "a.b@192.0.2.1:22", ""},
		{"ssh://root@[2001:db8::1]", "root@[2001:db8::1]:22", ""},
		{"ssh://root@[2001:db8::1]:2222", "root@[2001:db8::1]:2222", ""},
		{"ssh://host", "", "lacks the user"},
		{"ssh://root@", "", "must have the form"},
		{"unix:///run/x.sock", "", "must have the form"},
		{"ssh://root:hunter2@host", "", "must not hold a password"},
		{"ssh://root:hunter2@host:port", "", "not a URL"},
		{"ssh://root@host:0", "", `port "0" is not a number from 1 to 65535`},
		{"ssh://root@host:70000", "", `port "70000" is not a number from 1 to 65535`},
		{"ssh://root@host/run/x.sock", "", "must end after the port"},
		{"ssh://root@host?x=y", "", "must end after the port"},
		{"ssh://ro%20ot@host", "", "must not contain white space"},
	} {
		hop, err := ParseEndpoint(tc.endpoint)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: error %v, want %s", tc.endpoint, err, tc.err)
			}
			continue
		}
		if err != nil || hop.String() != tc.want {
			t.Errorf("%s: %v, %v, want %s", tc.endpoint, hop, err, tc.want)
		}
	}
}

// What is wrong with a hop does not show a password, readable or not.
func TestHopErrorsHidePasswords(t *testing.T) {
	for hop, want := range map[string]string{
		"root@host:22":           "",
		"host":                   "must be user@host or user@host:port",
		"root@host/":             "must be user@host or user@host:port",
		"root@host:70000":        "must be user@host or user@host:port",
		"root:hunter2@host":      "must not hold a password",
		"root:hunter2@host:port": "must not hold a password",
	} {
		errs := hopErrors(field.NewPath("jumpHosts").Index(0), hop, SSHScheme+hop)
		got := errs.ToAggregate()
		switch {
		case want == "" && got == nil:
		case want == "" || got == nil || !strings.Contains(got.Error(), want) || strings.Contains(got.Error(), "hunter2"):
			t.Errorf("%s: %v, want %q", hop, got, want)
		}
	}
}
