package fargate

import "fmt"

// Disk is what a volume of Amazon EBS is billed for: sizes in GiB, throughput in MiB/s. It
// stands in the identity of a task, because ECS shows no sizes.
type Disk struct {
	GiB        int32  `json:"gib"`
	Type       string `json:"type"`
	IOPS       int32  `json:"iops,omitempty"`
	Throughput int32  `json:"mibps,omitempty"`
}

// String tells it to people.
func (d Disk) String() string {
	out := fmt.Sprintf("%d GiB of EBS %s", d.GiB, d.Type)
	if d.IOPS > 0 {
		out += fmt.Sprintf(", %d IOPS", d.IOPS)
	}
	if d.Throughput > 0 {
		out += fmt.Sprintf(", %d MiB/s", d.Throughput)
	}
	return out
}
