package cfs

import "testing"

func TestWhatTheKernelEnforces(t *testing.T) {
	for _, tt := range []struct{ milli, shares, quota int64 }{
		{0, MinShares, 0},
		{1, MinShares, 1000},
		{2, MinShares, 1000},
		{10, 10, 1000},
		{11, 11, 1100},
		{999, 1022, 99900},
		{1000, 1024, 100000},
		{1001, 1025, 100100},
		{256_000, MaxShares, 25_600_000},
		{300_000, MaxShares, 30_000_000},
	} {
		if shares, quota := Shares(tt.milli), Quota(tt.milli); shares != tt.shares || quota != tt.quota {
			t.Errorf("%d thousandths are %d shares and a quota of %d, want %d and %d",
				tt.milli, shares, quota, tt.shares, tt.quota)
		}
	}
}
