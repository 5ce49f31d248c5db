package main

import (
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/syncloop"
)

// hostShutdown is how long pods have to end when their host shuts down; nil: nobody looks.
func hostShutdown(b config.Backend) []syncloop.ShutdownGrace {
	if b.Type != config.BackendCRI || b.CRI == nil {
		return nil
	}
	var out []syncloop.ShutdownGrace
	for _, group := range b.CRI.ShutdownGroups() {
		out = append(out, syncloop.ShutdownGrace{Priority: group.Priority, Grace: group.Grace()})
	}
	return out
}
