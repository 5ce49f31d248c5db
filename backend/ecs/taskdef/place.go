package taskdef

import (
	"hash/fnv"

	ktypes "k8s.io/apimachinery/pkg/types"
)

// placeOf says where a try of a launch goes: in which of the pod's subnets, with
// which of its kinds of capacity, in their order of preference. Try 0 leaves the
// subnet to ECS; after a refusal each is asked for alone, for another subnet is
// mostly another zone (ECS developer guide, "Capacity is unavailable at this time":
// "try again later or in a different availability zone"); then follows the next
// kind of capacity, and after the last the first again. Which subnet is first
// differs from pod to pod. The same try always goes to the same place: a client
// token stands for one request.
//
//	subnets a, b; Spot, on-demand    0 a+b Spot   1 a Spot   2 b Spot
//	                                 3 a+b on-d.  4 a on-d.  5 b on-d.  6 as 0
func placeOf(s settings, uid ktypes.UID, try int) (subnets []string, capacity string) {
	turns := 1
	if len(s.subnets) > 1 {
		turns += len(s.subnets)
	}
	if len(s.capacity) > 0 {
		capacity = s.capacity[try/turns%len(s.capacity)]
	}
	turn := try % turns
	if turn == 0 {
		return s.subnets, capacity
	}
	i := (firstSubnet(uid, len(s.subnets)) + turn - 1) % len(s.subnets)
	return s.subnets[i : i+1 : i+1], capacity
}

// firstSubnet spreads pods over n subnets.
func firstSubnet(uid ktypes.UID, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // it returns no error
	return int(h.Sum32() % uint32(n))
}
