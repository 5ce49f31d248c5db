package fargate

import (
	"maps"
	"slices"
)

// Rates are the prices of running Linux tasks, in US dollars an hour.
type Rates struct {
	// VCPU and GB are of one vCPU and of one GB of memory, with x86 and ARM.
	VCPU, GB, ARMVCPU, ARMGB float64
	// StorageGB is of one GB of ephemeral storage beyond the first 20.
	StorageGB float64
	// EBSGB is of one GiB of an EBS volume of type gp3; those of other types, and
	// IOPS and throughput, cost in relation to it what they do in [PricesRegion].
	EBSGB float64
	// SpotFactor is what Spot costs, as a part of the price on demand. It moves with
	// what is free, and there is no list of it: see [PublishedRates].
	SpotFactor float64
	// Of is the region whose price list they are; empty: somebody's own.
	Of string
}

// PricesRegion is the region whose prices stand in for those of regions that AWS's list lacks:
// new ones, and those of China, which pay in another currency.
const PricesRegion = "us-east-1"

// PublishedRates are AWS's prices of a region on [PricesDate] ("AWS Fargate Pricing": Linux), or
// of [PricesRegion] if the list lacks it. EBSGB is always of PricesRegion, and SpotFactor is the
// best case that the page advertises ("up to 70 % off"), not a price.
func PublishedRates(region string) Rates {
	rates, known := lists[region]
	if !known {
		region, rates = PricesRegion, lists[PricesRegion]
	}
	rates.Of, rates.EBSGB, rates.SpotFactor = region, ebsPrices[EBSDefault].gb/monthHours, 0.3
	return rates
}

// Regions are those of AWS's list, sorted.
func Regions() []string { return slices.Sorted(maps.Keys(lists)) }

// Foreign is true if they are the list of another region than that: its own are for its users to
// configure.
func (r Rates) Foreign(region string) bool { return r.Of != "" && r.Of != region }

// List names the list that they are of, where they are of one.
func (r Rates) List() string { return r.Of + " on " + PricesDate }

// FreeStorageGiB is the ephemeral storage that a task has anyway (ECS API,
// EphemeralStorage).
const FreeStorageGiB = 20

// PerHour is the price on demand, in US dollars, of a size with some ephemeral storage.
func (r Rates) PerHour(size Size, arch string, storageGiB int32) float64 {
	vcpu, gb := r.VCPU, r.GB
	if arch == ARM {
		vcpu, gb = r.ARMVCPU, r.ARMGB
	}
	return vcpu*float64(size.CPU)/1024 + gb*float64(size.MemoryMiB)/1024 +
		r.StorageGB*float64(max(storageGiB-FreeStorageGiB, 0))
}

// OrPublished is r with AWS's published prices of a region where it has none: all of them for the
// zero value, else those of Spot and of volumes alone.
func (r Rates) OrPublished(region string) Rates {
	published := PublishedRates(region)
	if r == (Rates{}) {
		return published
	}
	if r.SpotFactor == 0 {
		r.SpotFactor = published.SpotFactor
	}
	if r.EBSGB == 0 {
		r.EBSGB = published.EBSGB
	}
	return r
}

// EBSDefault is the type of volume of Amazon EBS that is made if none is named.
const EBSDefault = "gp3"

// monthHours are the hours of a month as EBS bills it ("Amazon EBS pricing": of 30
// days).
const monthHours = 30 * 24

// ebsPrice is what a kind of volume costs a month, in US dollars.
type ebsPrice struct {
	gb, iops, throughput float64
	// What of IOPS and MiB/s is free.
	freeIOPS, freeThroughput int32
}

// ebsPrices are AWS's in PricesRegion ("Amazon EBS pricing"). IOPS of io2 beyond
// 32,000 cost less.
var ebsPrices = map[string]ebsPrice{
	"gp2":      {gb: 0.10},
	EBSDefault: {gb: 0.08, iops: 0.005, throughput: 0.04, freeIOPS: 3000, freeThroughput: 125},
	"io1":      {gb: 0.125, iops: 0.065},
	"io2":      {gb: 0.125, iops: 0.065},
	"st1":      {gb: 0.045},
	"sc1":      {gb: 0.015},
}

// DiskPerHour is the price of a volume made for a pod, on Spot too; 0 for nil.
func (r Rates) DiskPerHour(d *Disk) float64 {
	if d == nil {
		return 0
	}
	p := ebsPrices[d.Type]
	month := p.gb*float64(d.GiB) + p.iops*float64(max(d.IOPS-p.freeIOPS, 0)) +
		p.throughput*float64(max(d.Throughput-p.freeThroughput, 0))
	return month * r.EBSGB / ebsPrices[EBSDefault].gb
}
