package config

import (
	"os"
	"testing"
)

// FuzzDecode looks for files that make reading or checking panic.
func FuzzDecode(f *testing.F) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	f.Add([]byte("node: {capacity: {cpu: -1e99}}\nshutdown: {flushTimeout: }\n"))
	f.Add([]byte("backend: {type: ecs, ecs: }\nclusterDNS: [fe80::1%eth0]\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		c := Default()
		if err := decode(file, &c); err != nil {
			return
		}
		c.fillBackend()
		if err := c.Validate(); err == nil && c.Node.Name == "" {
			t.Error("a configuration without a node name is valid")
		}
	})
}
