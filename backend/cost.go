package backend

// CostFacts are what pods cost on a remote that charges for them, of one kind of
// capacity. Sums are of what this process saw, from its start on.
type CostFacts struct {
	// Capacity is the kind, in the remote's words: "on-demand", "spot".
	Capacity string
	// Live is how many attempts of pods are charged for now.
	Live int
	// DollarsPerHour is what those cost now, in US dollars, by a list of prices.
	DollarsPerHour float64
	// Prices is the region whose list that is; empty: the configuration's own.
	Prices string
	// VCPUHours and GBHours are what was charged for, and Dollars is its price.
	VCPUHours, GBHours, Dollars float64
}
