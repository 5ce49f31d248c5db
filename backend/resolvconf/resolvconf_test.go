package resolvconf

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want Config
	}{
		"empty":                      {"", Config{}},
		"name servers add up":        {"nameserver 1.1\n nameserver\t2.2 x\n", Config{Servers: []string{"1.1", "2.2"}}},
		"the last search wins":       {"search a b\nsearch c. d .\n", Config{Searches: []string{"c", "d"}}},
		"a search of nothing too":    {"search a b\nsearch\n", Config{}},
		"options of a name replace":  {"options a:2 b\noptions a:3", Config{Options: []string{"a:3", "b"}}},
		"comments and unknown words": {"# nameserver 1.1.1.1\n#search x\n; x\ndomain x\nsortlist y\n\n", Config{}},
		"words without values":       {"nameserver\noptions\n", Config{}},
	} {
		if diff := cmp.Diff(tt.want, Parse(tt.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCompose(t *testing.T) {
	host := Config{Servers: []string{"1.1.1.1"}, Searches: []string{"corp", "x"}, Options: []string{"rotate", "ndots:2"}}
	for name, tt := range map[string]struct {
		got  Config
		want string
	}{
		"nothing":    {Config{}.With(Config{}), ""},
		"the host's": {host, "search corp x\nnameserver 1.1.1.1\noptions rotate ndots:2\n"},
		"the cluster's": {
			host.ForCluster([]string{"10.0.0.10"}, ClusterSearches("ns", "x")),
			"search ns.svc.x svc.x x corp x\nnameserver 10.0.0.10\noptions ndots:5\n",
		},
		"the pod's own, once each": {
			host.With(Config{
				Servers:  []string{"2.2.2.2", "1.1.1.1", "3.3.3.3", "4.4.4.4"},
				Searches: []string{"x", "y"}, Options: []string{"ndots:1", "edns0"},
			}),
			"search corp x y\nnameserver 1.1.1.1\nnameserver 2.2.2.2\nnameserver 3.3.3.3\noptions rotate ndots:1 edns0\n",
		},
	} {
		if diff := cmp.Diff(tt.want, tt.got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if host.Options[1] != "ndots:2" {
		t.Error("a composed configuration changed the one that it is made of")
	}
}

func TestWordsOfThePod(t *testing.T) {
	for _, tt := range []struct {
		name  string
		value *string
		want  string
	}{{"rotate", nil, "rotate"}, {"rotate", new(""), "rotate"}, {"ndots", new("1"), "ndots:1"}} {
		if got := Option(tt.name, tt.value); got != tt.want {
			t.Errorf("option %q, want %q", got, tt.want)
		}
	}
	for domain, want := range map[string][]string{
		"": nil, ".": nil, "x.y": {"ns.svc.x.y", "svc.x.y", "x.y"}, "x.": {"ns.svc.x", "svc.x", "x"},
	} {
		if got := ClusterSearches("ns", domain); !slices.Equal(got, want) {
			t.Errorf("of %q: %q, want %q", domain, got, want)
		}
	}
}

// TestLimits: as in a kubelet, a name that is too long is counted before it is left out.
func TestLimits(t *testing.T) {
	of := func(n, length int) (out []string) {
		for i := range n {
			out = append(out, strings.Repeat("a", length-3)+fmt.Sprintf("%03d", i))
		}
		return out
	}
	long, longest := strings.Repeat("b", 254), strings.Repeat("c", 253)
	for name, tt := range map[string]struct{ in, want []string }{
		"as many as may be":       {of(32, 10), of(32, 10)},
		"too many":                {of(33, 10), of(32, 10)},
		"too long":                {[]string{long, longest, "x"}, []string{longest, "x"}},
		"too long among too many": {append([]string{long}, of(33, 10)...), of(31, 10)},
		// Eight of 227, and one of 224 behind them, are 2048 with the blanks between.
		"a full line":                    {append(of(8, 227), of(1, 224)...), append(of(8, 227), of(1, 224)...)},
		"one character too many":         {append(of(8, 227), of(1, 225)...), of(8, 227)},
		"too many characters for a line": {of(20, 204), of(9, 204)},
	} {
		got := Config{}.With(Config{Searches: tt.in}).Searches
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
