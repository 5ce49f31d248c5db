package config

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/burstlet/burstlet/backend/cri/criconfig"
)

// validate leaves judging to the backend's own rules. A size of 0 is theirs for the
// default, in a file it is wrong.
func (c *CRI) validate(at *field.Path) field.ErrorList {
	errs := c.Settings().Errors(at)
	if size := c.ContainerLogMaxSize; size != nil && size.Sign() <= 0 {
		errs = append(errs, field.Invalid(at.Child("containerLogMaxSize"), size.String(), "must be positive"))
	}
	errs = append(errs, c.validateShutdown(at)...)
	reserved := c.SystemReserved.byName()
	for _, name := range slices.Sorted(maps.Keys(reserved)) {
		path, q := at.Child("systemReserved", string(name)), reserved[name]
		switch {
		case q == nil:
		case q.Sign() < 0:
			errs = append(errs, field.Invalid(path, q.String(), "must not be negative"))
		case name == criconfig.ReservedPIDs && q.MilliValue()%1000 != 0:
			errs = append(errs, field.Invalid(path, q.String(), "must be a whole number"))
		}
	}
	return errs
}

// validateReserved refuses reservations that leave nothing of a configured capacity. What
// the host has the backend knows.
func (c *CRI) validateReserved(capacity Capacity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	has, keeps := capacity.byName(), c.SystemReserved.byName()
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if has[name] != nil && keeps[name] != nil && keeps[name].Sign() > 0 && keeps[name].Cmp(has[name].Quantity) >= 0 {
			errs = append(errs, field.Invalid(at.Child(string(name)), has[name].String(),
				"must be more than backend.cri.systemReserved."+string(name)+", "+keeps[name].String()))
		}
	}
	return errs
}

// Limit says what the backend keeps pods from.
func (p *Pods) Limit(c *criconfig.Config) {
	c.Unprivileged, c.HostPaths = !p.Privileged, p.hostPaths()
}

func (p *Pods) hostPaths() []criconfig.HostPath {
	if p.HostPaths == nil {
		return nil
	}
	out := make([]criconfig.HostPath, len(p.HostPaths))
	for i, h := range p.HostPaths {
		out[i] = criconfig.HostPath(h)
	}
	return out
}

// Settings returns the section as its backend takes it.
func (c *CRI) Settings() criconfig.Config {
	out := criconfig.Config{
		Endpoint: c.Endpoint, RuntimeSocket: c.RuntimeSocket, PodsDir: c.PodsDir, SeccompProfileRoot: c.SeccompProfileRoot,
		SeccompDefault:       c.SeccompDefault,
		ContainerLogMaxFiles: c.ContainerLogMaxFiles, PodPidsLimit: c.PodPidsLimit, SwapBehavior: c.MemorySwap.SwapBehavior,
		Reserved:   c.SystemReserved.ResourceList(),
		PodLogsDir: c.PodLogsDir, ContainerLogsDir: c.ContainerLogsDir,
		CgroupParent: c.CgroupParent, CgroupDriver: c.CgroupDriver, ResolvConf: c.ResolvConf,
	}
	for _, group := range c.ShutdownGroups() {
		out.ShutdownDelay += group.Grace() + killTime
	}
	if size := c.ContainerLogMaxSize; size != nil && size.Sign() > 0 {
		out.ContainerLogMaxSize = size.Value()
	}
	if s := c.SSH; s != nil {
		out.SSH = &criconfig.SSH{
			KeyFiles: s.KeyFiles, Agent: s.Agent, PassphraseFile: s.PassphraseFile, JumpKeyFiles: s.JumpKeyFiles,
			KnownHostsFile:        s.KnownHostsFile,
			InsecureIgnoreHostKey: s.InsecureIgnoreHostKey, JumpHosts: s.JumpHosts,
			Keepalive: s.Keepalive.Duration, KeepaliveMax: s.KeepaliveMax,
		}
	}
	return out
}
