package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/clients"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/ecstest"
	stub "github.com/burstlet/burstlet/test/fakeaws/ecs"
	"github.com/burstlet/burstlet/test/kit/lane"
)

const group = "/burstlet/test"

// like is an account that takes the time that AWS takes.
func like(change func(*stub.Config)) stub.Config {
	cfg := stub.Config{
		LogGroups: []string{group}, Delays: stub.Delays{
			Provision: 20 * time.Second, Pull: 10 * time.Second, Deprovision: 15 * time.Second, Visible: 2 * time.Second,
		},
	}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func configOf() Config {
	return Config{Config: ecsconfig.Config{
		Region: "us-east-1", Cluster: "default", Subnets: []string{"subnet-0a"}, SecurityGroups: []string{"sg-0a"},
		NodeIdentity:     "uid/node",
		ExecutionRoleARN: "arn:aws:iam::123456789012:role/execution", TaskRoleARN: "arn:aws:iam::123456789012:role/task",
		LogGroup: group,
		Endpoint: stub.Endpoint,
	}}
}

func clientsOf(t *testing.T, s *stub.Server) clients.Clients {
	t.Helper()
	c, err := clients.New(t.Context(), clients.Config{
		Region: "us-east-1", Endpoint: stub.Endpoint, AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "not-a-secret",
		HTTPClient: s.Client(), May: backend.Always,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// probed is what a run sees of an account; all that it made must be gone.
func probed(t *testing.T, cfg stub.Config) Result {
	t.Helper()
	var out Result
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(cfg)
		var err error
		if out, err = Run(t.Context(), configOf(), clientsOf(t, s)); err != nil {
			t.Errorf("%v", err)
		}
		if n := s.Calls()["RunTask"]; n != configOf().Bill().Tasks || n > 10 {
			t.Errorf("%d tasks were made, the bill says %d", n, configOf().Bill().Tasks)
		}
		nothingLeft(t, s)
	})
	return out
}

func nothingLeft(t *testing.T, s *stub.Server) {
	t.Helper()
	time.Sleep(time.Minute) // tasks deprovision
	r := s.Report()
	for _, task := range r.Tasks {
		if task.LastStatus != "STOPPED" {
			t.Errorf("a task is %s: %+v", task.LastStatus, task)
		}
	}
	for _, d := range r.Definitions {
		if d.Status == "ACTIVE" || d.Status == "INACTIVE" {
			t.Errorf("definition %+v is left", d)
		}
	}
}

// rowsBy are the rows by name.
func rowsBy(r Result) map[string]Row {
	out := map[string]Row{}
	for _, row := range r.Rows {
		out[row.Name] = row
	}
	return out
}

// Against the test server, which assumes the same, each row agrees, and nothing of the
// account is in the file.
func TestTheTestServerAgrees(t *testing.T) {
	got := probed(t, like(nil))
	names := 0
	for _, e := range experiments(configOf()) {
		names += len(e.rows)
	}
	if len(got.Rows) != names {
		t.Errorf("%d rows, want %d", len(got.Rows), names)
	}
	for _, row := range got.Rows {
		if row.Verdict != Agrees && row.Verdict != Measured {
			t.Errorf("%+v", row)
		}
	}
	for name, want := range map[string]float64{"time.provision": 20, "time.pull": 10, "time.deprovision": 15} {
		if row := rowsBy(got)[name]; row.Seconds != want {
			t.Errorf("%s took %v s, want %v", name, row.Seconds, want)
		}
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"123456789012", "arn:", "subnet-", "sg-0a", "AKID", "role/", group} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
	var table bytes.Buffer
	if err := got.WriteTable(&table); err != nil || strings.Count(table.String(), "\n") != names+1 {
		t.Errorf("%v\n%s", err, table.String())
	}
}

// changed are accounts that differ in one rule, with the row that tells.
var changed = map[string]struct {
	change func(*stub.Config)
	row    string
	seen   string
}{
	"no exit code":    {func(c *stub.Config) { c.Observed.RefusedExit = "none" }, "refused.exitCode", "none"},
	"another code":    {func(c *stub.Config) { c.Observed.RefusedExit = "137" }, "refused.exitCode", "137"},
	"the task ends":   {func(c *stub.Config) { c.Kindness.StopsRefused = true }, "refused.task", "ends"},
	"late health":     {func(c *stub.Config) { c.Observed.HealthEvery = time.Minute }, "health.delay", ""},
	"late logs":       {func(c *stub.Config) { c.Delays.Ingest = 20 * time.Second }, "logs.delay", ""},
	"blank lines":     {func(c *stub.Config) { c.Observed.BlankLines = true }, "logs.blankLines", "kept"},
	"exec for free":   {func(c *stub.Config) { c.Kindness.ExecForFree = true }, "exec.32MiB", "runs"},
	"exec takes more": {func(c *stub.Config) { c.Observed.ExecMiB = 64 }, "exec.64MiB", "killed"},
}

// Where one rule differs its row says so, and no other; a server that was told behaves so.
func TestOneRuleThatDiffers(t *testing.T) {
	lane.RacedFrom(t, lane.All)
	for name, tc := range changed {
		t.Run(name, func(t *testing.T) {
			got := probed(t, like(tc.change))
			for _, row := range got.Rows {
				if (row.Verdict == Differs) != (row.Name == tc.row) {
					t.Errorf("%+v", row)
				}
			}
			if row := rowsBy(got)[tc.row]; tc.seen != "" && row.Seen != tc.seen {
				t.Errorf("%+v, want %s", row, tc.seen)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			told := stub.Config{LogGroups: []string{group}}
			if left, err := told.Observe(bytes.NewReader(text)); err != nil || len(left) > 0 {
				t.Fatalf("%v, not followed: %v", err, left)
			}
			again := rowsBy(probed(t, told))
			for name, row := range rowsBy(got) {
				if other := again[name]; other.Verdict != row.Verdict || other.Seconds == 0 && other.Seen != row.Seen {
					t.Errorf("the account: %+v\nthe server that was told: %+v", row, other)
				}
			}
		})
	}
}

// A run that is interrupted removes what it made, whenever that is.
func TestInterrupted(t *testing.T) {
	for _, after := range []time.Duration{0, 500 * time.Millisecond, 5 * time.Second, 40 * time.Second, 75 * time.Second} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stub.New(like(nil))
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				if _, err := Run(ctx, configOf(), clientsOf(t, s)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
				nothingLeft(t, s)
			})
		})
	}
}

// A task whose answer was lost is found and stopped.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(like(nil))
		s.Inject(stub.Fault{Action: "RunTask", LoseReply: true, Times: 100})
		got, err := Run(t.Context(), configOf(), clientsOf(t, s))
		if err != nil {
			t.Errorf("%v", err)
		}
		if row := rowsBy(got)["stop.code"]; row.Verdict != Unknown {
			t.Errorf("%+v", row)
		}
		if len(s.Report().Tasks) == 0 {
			t.Error("no task was made, so that none was lost")
		}
		nothingLeft(t, s)
	})
}

// What a run left that was killed ends by itself, and the next run removes it.
func TestKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(like(nil))
		killed := clientsOf(t, s)
		p := &prober{cfg: configOf(), clients: killed, image: DefaultImage, key: "try-" + "left"}
		p.cfg.Config = p.cfg.WithDefaults()
		if _, err := p.run(t.Context(), false, p.definition("left", p.container("app", true, "sleep 200"))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if err := p.remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		nothingLeft(t, s)
	})
}

// Where the caller may not do something, rows say so, and the run ends.
func TestDenied(t *testing.T) {
	got := probedDenied(t, "ecs:RunTask")
	for _, row := range got.Rows {
		if !strings.HasPrefix(row.Name, "ports.") &&
			(row.Verdict != Unknown || !strings.Contains(row.Seen, "not authorized to perform: ecs:RunTask")) {
			t.Errorf("%+v", row)
		}
		if strings.Contains(row.Seen, "123456789012") {
			t.Errorf("%s tells the account", row.Seen)
		}
	}
}

func probedDenied(t *testing.T, action string) Result {
	t.Helper()
	var out Result
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(like(nil))
		s.Deny(stub.Denial{Action: action})
		var err error
		if out, err = Run(t.Context(), configOf(), clientsOf(t, s)); err != nil {
			t.Errorf("%v", err)
		}
		nothingLeft(t, s)
	})
	return out
}

// A run needs nothing that burstlet's own policy does not grant, but to leave no log.
func TestTheControllersPolicyIsEnough(t *testing.T) {
	policy, err := ecstest.ReadPolicy("../../../deploy/aws/controller-policy.json", group)
	if err != nil {
		t.Fatal(err)
	}
	got := probed(t, like(func(c *stub.Config) {
		c.Policy = func(p stub.Principal, action, resource string) bool {
			return p != stub.Caller || policy.Allows(action, resource)
		}
	}))
	for _, row := range got.Rows {
		if row.Verdict != Agrees && row.Verdict != Measured {
			t.Errorf("%+v", row)
		}
	}
}

// A run costs less than five cents by the published prices, and as the tasks last.
func TestBill(t *testing.T) {
	bill := configOf().Bill()
	if bill.Tasks < 5 || bill.Tasks > 10 || bill.Dollars <= 0 || bill.Dollars >= 0.05 {
		t.Errorf("%+v", bill)
	}
	synctest.Test(t, func(t *testing.T) {
		s := stub.New(like(nil))
		if _, err := Run(t.Context(), configOf(), clientsOf(t, s)); err != nil {
			t.Fatal(err)
		}
		if cost := s.Report().Cost; cost.Dollars > bill.Dollars {
			t.Errorf("it cost %v, the bill says at most %v", cost.Dollars, bill.Dollars)
		}
	})
}
