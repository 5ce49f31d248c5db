package fargate

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/quickstart-aws.md anew")

const (
	page  = "../../../docs/quickstart-aws.md"
	begin = "<!-- generated: go test ./backend/ecs/fargate -run TestCostsPage -update -->\n"
	end   = "<!-- end -->\n"
)

// Prices of PricesRegion that stand beside tasks, in dollars (AWS's pricing pages of
// Secrets Manager, CloudWatch, SQS and VPC), and a month of them.
const (
	hours        = 730
	natHour      = 0.045
	endpointHour = 0.01
	endpoints    = 6 // ecr.api, ecr.dkr, logs, secretsmanager, ssmmessages, sqs
	addressHour  = 0.005
	logsGB       = 0.50
	logsOfPod    = 0.1 // GB a month: an example
	// What a pod with a token costs a month in a bucket and in Secrets Manager: backend/ecs,
	// TestTokensCostATwentiethInTheBucket.
	tokenInBucket, tokenInSecrets = 0.01, 0.45
	// polls are the receives of a queue in a month, each of 20 s; a million cost this.
	polls, million = hours * 3600 / 20, 0.40
	// runTasks is how many RunTask an account may make in a second.
	runTasks = 20
)

// tables are those of the page.
func tables() string {
	var out strings.Builder
	r := PublishedRates(PricesRegion)
	smallest := Size{CPU: 256, MemoryMiB: 512}
	fmt.Fprintf(
		&out, "Prices of %s, in dollars; those of Fargate by AWS's list of %s. burstlet has that list for the\n"+
			"%d regions below. In another it computes with these unless `backend.ecs.prices` is set, and `explain`, `doctor`\n"+
			"and the label `prices` of its metrics say so. EBS volumes are computed with these everywhere.\n\n",
		PricesRegion, PricesDate, len(Regions()),
	)
	fmt.Fprint(&out, "| on demand, an hour | x86 | Arm |\n|---|---|---|\n")
	fmt.Fprintf(&out, "| one vCPU | %g | %g |\n| one GB of memory | %g | %g |\n", r.VCPU, r.ARMVCPU, r.GB, r.ARMGB)
	fmt.Fprintf(&out, "| ephemeral storage beyond %d GB, a GB | %g | %g |\n", FreeStorageGiB, r.StorageGB, r.StorageGB)
	fmt.Fprintf(&out, "| an EBS volume of type %s, a GB | %.6f | %.6f |\n", EBSDefault, r.EBSGB, r.EBSGB)
	fmt.Fprintf(
		&out, "| the smallest task (0.25 vCPU, 0.5 GB) | %.4f | %.4f |\n\n", r.PerHour(smallest, X86, 0),
		r.PerHour(smallest, ARM, 0),
	)
	counts := []float64{10, 100, 1000}
	row := func(what string, of func(pods float64) string) {
		fmt.Fprintf(&out, "| %s |", what)
		for _, n := range counts {
			fmt.Fprintf(&out, " %s |", of(n))
		}
		out.WriteString("\n")
	}
	each := func(dollars float64) func(float64) string {
		return func(pods float64) string { return money(pods * dollars) }
	}
	once := func(dollars float64) func(float64) string { return func(float64) string { return money(dollars) } }
	fmt.Fprint(&out, "| a month, in dollars (computed) | 10 pods | 100 pods | 1,000 pods |\n|---|---|---|---|\n")
	row("their tasks, of the smallest size, x86", each(hours*r.PerHour(smallest, X86, 0)))
	row("tokens and files of single pods, in `payloadBucket`", each(tokenInBucket))
	row("the same in Secrets Manager, without a bucket", each(tokenInSecrets))
	row("logs, for each 0.1 GB a pod", each(logsOfPod*logsGB))
	row("the queue's receives, beyond the free million of the account", once(polls*million/1e6))
	row("one NAT gateway, and 0.045 a GB", once(natHour*hours))
	row("or 6 interface endpoints in one zone, and 0.01 a GB", once(endpoints*endpointHour*hours))
	row("or public addresses", each(addressHour*hours))
	row("vCPUs of the quota (a new account: 6)", func(pods float64) string { return fmt.Sprintf("%g", pods/4) })
	row(
		"until all are started, by the rate of RunTask (20 a second)",
		func(pods float64) string { return fmt.Sprintf("%g s", pods/runTasks) },
	)
	fmt.Fprint(&out, "\n| Fargate by region, on demand, an hour | vCPU | GB | Arm: vCPU | GB | GB of storage |\n"+
		"|---|---|---|---|---|---|\n")
	for _, region := range Regions() {
		r := PublishedRates(region)
		fmt.Fprintf(&out, "| %s | %g | %g | %g | %g | %g |\n", region, r.VCPU, r.GB, r.ARMVCPU, r.ARMGB, r.StorageGB)
	}
	return out.String()
}

// money has whole dollars, but cents below ten.
func money(dollars float64) string {
	if dollars < 10 {
		return fmt.Sprintf("%.2f", dollars)
	}
	return fmt.Sprintf("%.0f", dollars)
}

// The tables of the page follow from the prices that burstlet computes with.
func TestCostsPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the tables", page)
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+tables()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != tables() {
		t.Errorf("the tables are out of date; write them anew with -update:\n%s", tables())
	}
}
