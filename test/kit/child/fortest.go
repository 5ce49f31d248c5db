package child

import (
	"context"
	"testing"

	"github.com/burstlet/burstlet/test/kit/logs"
)

// ForTest starts a program and stops it when the test ends, unless the test ended it
// before. The test fails when the program ended by itself or badly, or had a data race;
// killed ones included. Without a log in cfg the end of its log is shown when the test fails.
func ForTest(t testing.TB, cfg Config) *Child {
	t.Helper()
	log := &logs.Buffer{}
	if cfg.Log == nil && cfg.LogFile == "" {
		cfg.Log = log
	}
	c, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil { // bounded by its grace
			t.Error(err)
		}
		if cfg.Log == log {
			logs.Show(t, c.name, log.String())
		}
	})
	return c
}
