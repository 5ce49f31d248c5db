package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands that ask no cluster, as the command line runs them.
func TestExplainAndDoctorOfASimulation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
	if err := os.WriteFile(file, []byte(pod), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{
			[]string{"explain", "-f", file, "--backend", "sim", "--node-name", "n"}, "Pod default/p on node n (sim): accepted\n",
		},
		{[]string{"explain", "-f", file, "--node-name", "n", "-o", "json"}, `"accepted": true`},
		{
			[]string{"doctor", "--backend", "sim", "--node-name", "n", "--backend-only"},
			"node n (sim)\n  warn  backend  is simulated",
		},
	} {
		if out, err := execute(t, tc.args...); err != nil || !strings.Contains(out, tc.want) {
			t.Errorf("%v: %v: %s", tc.args, err, out)
		}
	}
	for _, args := range [][]string{
		{"explain"}, {"explain", "-f", "/does/not/exist"}, {"explain", "-f", "-", "-o", "xml"},
	} {
		if _, err := execute(t, args...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
