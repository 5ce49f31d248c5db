package convert

import "github.com/burstlet/burstlet/backend/cri/criconfig"

// Converter turns pods into requests by the configuration of their node.
type Converter struct{ cfg criconfig.Config }

// New takes a configuration with its defaults.
func New(cfg criconfig.Config) Converter { return Converter{cfg} }
