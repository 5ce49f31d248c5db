package intask

import (
	"fmt"
	"path/filepath"

	"github.com/burstlet/burstlet/backend/resolvconf"
)

// writeResolver makes /etc/resolv.conf the pod's. Doing so again changes nothing.
func writeResolver(etc string, d DNS) error {
	return rewrite(filepath.Join(etc, "resolv.conf"), func(old []byte) ([]byte, error) {
		conf := resolvconf.Parse(string(old))
		switch d.Policy {
		case DNSDefault:
		case DNSCluster:
			conf = conf.ForCluster(d.ClusterServers, d.ClusterSearches)
		case DNSNone:
			conf = resolvconf.Config{}
		default:
			return nil, fmt.Errorf("%q is no DNS policy of this version", d.Policy)
		}
		own := resolvconf.Config{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
		return []byte(conf.With(own).String()), nil
	})
}
