package fargate

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

// Where and when PublishedRates were read.
const (
	PricesRegion = "us-east-1"
	PricesDate   = "2026-11-20"
)

// PublishedRates are AWS's prices in PricesRegion on PricesDate ("AWS Fargate
// Pricing": Linux). SpotFactor is the best case that the page advertises ("up to
// 70 % off"), not a price.
func PublishedRates() Rates {
	return Rates{
		VCPU: 0.04048, GB: 0.004445, ARMVCPU: 0.03238, ARMGB: 0.00356, StorageGB: 0.000111,
		EBSGB: ebsPrices[EBSDefault].gb / monthHours, SpotFactor: 0.3, Of: PricesRegion,
	}
}

// Foreign is true if they are the list of another region than that. There is no list of each
// region here: those of others are for their users to configure.
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

// OrPublished is r with AWS's published prices where it has none: all of them for the
// zero value, else those of Spot and of volumes alone.
func (r Rates) OrPublished() Rates {
	if r == (Rates{}) {
		r = PublishedRates()
	}
	if r.SpotFactor == 0 {
		r.SpotFactor = PublishedRates().SpotFactor
	}
	if r.EBSGB == 0 {
		r.EBSGB = PublishedRates().EBSGB
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
