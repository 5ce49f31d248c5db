package controlplane

import "github.com/burstlet/burstlet/test/kit/launch"

// NodeEnv is [launch.Environ], which callers are to use.
func NodeEnv(environ []string) []string { return launch.Environ(environ) }
