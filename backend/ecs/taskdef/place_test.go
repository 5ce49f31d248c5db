package taskdef

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	ktypes "k8s.io/apimachinery/pkg/types"
)

func TestPlaceOf(t *testing.T) {
	spot := []string{"FARGATE_SPOT", "FARGATE"}
	for name, tc := range map[string]struct {
		subnets, capacity []string
		want              string
	}{
		"one subnet, one capacity: every try is there": {
			[]string{"a"}, []string{"FARGATE"}, "a FARGATE; a FARGATE; a FARGATE",
		},
		"one subnet: Spot and on-demand in turn": {[]string{"a"}, spot, "a FARGATE_SPOT; a FARGATE; a FARGATE_SPOT"},
		"no capacity is named":                   {[]string{"a"}, nil, "a ; a "},
		"one zone after the other, then on-demand, then from the beginning": {
			[]string{"a", "b", "c"},
			spot,
			"a,b,c FARGATE_SPOT; a FARGATE_SPOT; b FARGATE_SPOT; c FARGATE_SPOT; " +
				"a,b,c FARGATE; a FARGATE; b FARGATE; c FARGATE; a,b,c FARGATE_SPOT",
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := strings.Split(tc.want, "; ")
			var got []string
			for try := range want {
				in, capacity := placeOf(settings{subnets: tc.subnets, capacity: tc.capacity}, "u1", try)
				got = append(got, strings.Join(in, ",")+" "+capacity)
			}
			if !slices.Equal(got, want) {
				t.Errorf("\n got %q\nwant %q", got, want)
			}
		})
	}
}

// Not every pod asks for the same subnet next.
func TestPlacesAreSpread(t *testing.T) {
	count := map[string]int{}
	for i := range 300 {
		in, _ := placeOf(settings{subnets: []string{"a", "b", "c"}}, ktypes.UID(fmt.Sprint("uid-", i)), 1)
		count[in[0]]++
	}
	for _, subnet := range []string{"a", "b", "c"} {
		if count[subnet] < 50 {
			t.Errorf("of 300 pods %v", count)
		}
	}
}
