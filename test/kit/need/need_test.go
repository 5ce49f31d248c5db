package need

import "testing"

// ending is a test that notes how it is ended.
type ending struct {
	testing.TB
	how string
}

func (e *ending) Helper()               {}
func (e *ending) Fatalf(string, ...any) { e.how = "failed"; panic(e) }
func (e *ending) Skipf(string, ...any)  { e.how = "skipped"; panic(e) }

func TestMissing(t *testing.T) {
	for value, want := range map[string]string{"": "skipped", "0": "skipped", "1": "failed"} {
		t.Run(RequireEnv+"="+value, func(t *testing.T) {
			t.Setenv(RequireEnv, value)
			e := &ending{TB: t}
			func() {
				defer func() {
					if got := recover(); got != e {
						t.Errorf("the test went on: %v", got)
					}
				}()
				Missing(e, "%s is not installed", "sshd")
			}()
			if e.how != want {
				t.Errorf("the test is %s, want %s", e.how, want)
			}
		})
	}
}
