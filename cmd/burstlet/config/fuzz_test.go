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
	f.Add([]byte("nodes:\n- {node: {name: a}, backend: {type: sim}}\n-\n- 3\n"))
	f.Add([]byte("backend: {type: ecs, ecs: }\nclusterDNS: [fe80::1%eth0]\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		c := Default()
		entries, err := decode(file, &c)
		if err != nil || c.complete(entries, "") != nil || c.Validate() != nil {
			return
		}
		for _, one := range c.Each() {
			if one.Node.Name == "" {
				t.Error("a configuration without a node name is valid")
			}
		}
	})
}
