package fargate

import (
	"math"
	"testing"
)

func TestSizes(t *testing.T) {
	for _, tc := range []struct{ need, want Size }{
		{Size{0, 0}, Size{256, 512}},
		{Size{256, 513}, Size{256, 1024}},
		{Size{1, 2049}, Size{512, 3072}},
		{Size{257, 1}, Size{512, 1024}},
		{Size{1024, 8193}, Size{2048, 9216}},
		{Size{4097, 1}, Size{8192, 16384}},
		{Size{8192, 16385}, Size{8192, 20480}},
		{Size{1, 122881}, Size{32768, 249856}},
		{Size{32768, 61441}, Size{32768, 122880}},
	} {
		for _, arch := range []string{X86, ARM} {
			got, err := Fit(tc.need, PublishedRates(PricesRegion), arch)
			if err != nil || got != tc.want {
				t.Errorf("%v on %s: got %v, %v, want %v", tc.need, arch, got, err, tc.want)
			}
		}
	}
	for _, need := range []Size{{32769, 1}, {1, 249857}} {
		if got, err := Fit(need, PublishedRates(PricesRegion), X86); err == nil {
			t.Errorf("%v fits in %v", need, got)
		}
	}
}

// Steps of memory grow with the vCPUs, so where memory is dear a size with more
// vCPUs may cost less.
func TestTheCheapestSizeIsNotAlwaysTheSmallest(t *testing.T) {
	dear := Rates{VCPU: 0.0001, GB: 1}
	// 8 vCPUs have 57344 MiB and 61440; 16 have 57344 too, but no less CPU.
	for need, want := range map[Size]Size{
		{256, 30721}:   {8192, 32768},
		{8192, 57345}:  {32768, 61440}, // the same memory as 8 vCPUs have
		{8192, 61441}:  {16384, 65536},
		{4096, 120000}: {16384, 122880},
	} {
		got, err := Fit(need, dear, X86)
		if err != nil || dear.PerHour(got, X86, 0) > dear.PerHour(want, X86, 0) {
			t.Errorf("%v: got %v, %v, dearer than %v", need, got, err, want)
		}
	}
	// With vCPUs for nothing every need takes the least memory of all rows.
	free := Rates{GB: 1}
	for _, row := range sizes {
		for _, other := range sizes {
			if other.cpu < row.cpu {
				continue
			}
			for need := int64(1); need < 122880; need += 1021 {
				got, err := Fit(Size{row.cpu, need}, free, X86)
				if m := leastMemory(other.memory, need); err == nil && m > 0 && m < got.MemoryMiB {
					t.Fatalf("%d CPU units and %d MiB: got %v, %d has %d MiB", row.cpu, need, got, other.cpu, m)
				}
			}
		}
	}
}

func TestPrices(t *testing.T) {
	r := PublishedRates(PricesRegion)
	for _, tc := range []struct {
		size    Size
		arch    string
		storage int32
		want    float64
	}{
		{Size{1024, 2048}, X86, 0, 0.04048 + 2*0.004445},
		{Size{256, 512}, ARM, 20, 0.03238/4 + 0.00356/2},
		{Size{1024, 2048}, X86, 30, 0.04048 + 2*0.004445 + 10*0.000111},
	} {
		if got := r.PerHour(tc.size, tc.arch, tc.storage); got < tc.want-1e-9 || got > tc.want+1e-9 {
			t.Errorf("%v on %s: %v, want %v", tc.size, tc.arch, got, tc.want)
		}
	}
}

// Each region of AWS's list has all its prices, near those of the others; a region that it lacks
// has those of PricesRegion.
func TestPricesOfRegions(t *testing.T) {
	near := func(price, other float64) bool { return price > other/2 && price < other*2 }
	base := PublishedRates(PricesRegion)
	for _, region := range Regions() {
		r := PublishedRates(region)
		if r.Of != region || r.Foreign(region) || !near(r.VCPU, base.VCPU) || !near(r.GB, base.GB) ||
			!near(r.ARMVCPU, base.ARMVCPU) || !near(r.ARMGB, base.ARMGB) || !near(r.StorageGB, base.StorageGB) {
			t.Errorf("%s: %+v", region, r)
		}
	}
	// As AWS's page says of Frankfurt.
	want := base
	want.VCPU, want.GB, want.ARMVCPU, want.ARMGB, want.StorageGB = 0.04656, 0.00511, 0.03725, 0.00409, 0.000132
	want.Of = "eu-central-1"
	if got := PublishedRates("eu-central-1"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := PublishedRates("cn-north-1"); got != base || !got.Foreign("cn-north-1") {
		t.Errorf("a region that the list lacks: %+v", got)
	}
}

func TestPriceOfAVolume(t *testing.T) {
	rates := PublishedRates(PricesRegion)
	for _, tc := range []struct {
		disk  *Disk
		month float64 // "Amazon EBS pricing", us-east-1
	}{
		{nil, 0},
		{&Disk{GiB: 100, Type: "gp3"}, 8},
		{&Disk{GiB: 100, Type: "gp3", IOPS: 4000, Throughput: 225}, 8 + 5 + 4},
		{&Disk{GiB: 100, Type: "gp3", IOPS: 3000, Throughput: 125}, 8},
		{&Disk{GiB: 100, Type: "io2", IOPS: 1000}, 12.5 + 65},
		{&Disk{GiB: 1000, Type: "sc1"}, 15},
	} {
		if got := rates.DiskPerHour(tc.disk) * monthHours; math.Abs(got-tc.month) > 1e-9 {
			t.Errorf("%v: %v a month, want %v", tc.disk, got, tc.month)
		}
	}
	rates.EBSGB *= 2
	if got := rates.DiskPerHour(&Disk{GiB: 100, Type: "gp2"}) * monthHours; math.Abs(got-20) > 1e-9 {
		t.Errorf("gp2 at twice the price of gp3: %v", got)
	}
}
