package cfs

// The kernel's bounds, and the kubelet's period and least quota (pkg/kubelet/cm).
const (
	MinShares = 2
	MaxShares = 262144
	// SharesOfOne are the shares of one processor.
	SharesOfOne = 1024
	// Period is that of a quota, in microseconds.
	Period = 100000
	// minQuota in microseconds.
	minQuota = 1000
	// Milli are the thousandths of one processor, in which quantities count.
	Milli = 1000
)

// Shares are those of a request in thousandths of a processor (kubelet: MilliCPUToShares).
func Shares(milli int64) int64 {
	return min(max(milli*SharesOfOne/Milli, MinShares), MaxShares)
}

// Quota is the microseconds of each period of a limit in thousandths of a processor; 0 is
// no limit (kubelet: MilliCPUToQuota).
func Quota(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*Period/Milli, minQuota)
}
