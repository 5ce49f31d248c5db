package config

import (
	"net/url"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const sshScheme = "ssh://"

func (c *CRI) validate(at *field.Path) field.ErrorList {
	errs := c.validateEndpoint(at)
	for _, dir := range []struct{ name, path string }{
		{"runtimeSocket", c.RuntimeSocket},
		{"podsDir", c.PodsDir},
		{"seccompProfileRoot", c.SeccompProfileRoot},
		{"podLogsDir", c.PodLogsDir},
		{"containerLogsDir", c.ContainerLogsDir},
		{"resolvConf", c.ResolvConf},
	} {
		if !filepath.IsAbs(dir.path) || filepath.Clean(dir.path) != dir.path || dir.path == "/" {
			errs = append(errs, field.Invalid(at.Child(dir.name), dir.path, "must be an absolute path"))
		}
	}
	if c.ContainerLogMaxSize != nil && c.ContainerLogMaxSize.Sign() <= 0 {
		errs = append(errs, field.Invalid(at.Child("containerLogMaxSize"), c.ContainerLogMaxSize.String(), "must be positive"))
	}
	if c.ContainerLogMaxFiles < minLogFiles {
		errs = append(errs, field.Invalid(at.Child("containerLogMaxFiles"), c.ContainerLogMaxFiles, "must be at least 2"))
	}
	if c.PodPidsLimit < 0 {
		errs = append(errs, field.Invalid(at.Child("podPidsLimit"), c.PodPidsLimit, "must not be negative; 0 is no limit"))
	}
	errs = append(errs, invalid(at.Child("cgroupParent"), c.CgroupParent, validation.IsDNS1123Label(c.CgroupParent))...)
	if c.CgroupDriver != "" {
		errs = append(errs, supported(at.Child("cgroupDriver"), c.CgroupDriver, cgroupDrivers()...)...)
	}
	return errs
}

func (c *CRI) validateEndpoint(at *field.Path) field.ErrorList {
	if !strings.HasPrefix(c.Endpoint, sshScheme) {
		errs := validSocket(at.Child("endpoint"), c.Endpoint, "unix:///run/containerd/containerd.sock, or ssh://user@host")
		if c.SSH != nil {
			errs = append(errs, field.Forbidden(at.Child("ssh"), "only with an endpoint as in ssh://user@host"))
		}
		return errs
	}
	errs := validHop(at.Child("endpoint"), c.Endpoint, c.Endpoint)
	if c.SSH == nil {
		return append(errs, field.Required(at.Child("ssh"), "how the host is reached: keyFiles or agent, and knownHostsFile"))
	}
	return append(errs, c.SSH.validate(at.Child("ssh"))...)
}

func (s *SSH) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.KeyFiles) == 0 && s.Agent == "" {
		errs = append(errs, field.Required(at.Child("keyFiles"), "private keys to log in with, or agent, the socket of an SSH agent"))
	}
	for i, file := range s.KeyFiles {
		if file == "" {
			errs = append(errs, field.Required(at.Child("keyFiles").Index(i), "the path of a private key"))
		}
	}
	switch {
	case s.KnownHostsFile == "" && !s.InsecureIgnoreHostKey:
		errs = append(errs, field.Required(at.Child("knownHostsFile"),
			"the keys of the host, as ssh-keyscan prints them (compare them with the host's own); insecureIgnoreHostKey: true does without, and lets anyone in between read and change everything"))
	case s.KnownHostsFile != "" && s.InsecureIgnoreHostKey:
		errs = append(errs, field.Invalid(at.Child("insecureIgnoreHostKey"), true, "excludes knownHostsFile"))
	}
	for i, hop := range s.JumpHosts {
		errs = append(errs, validHop(at.Child("jumpHosts").Index(i), hop, sshScheme+hop)...)
	}
	if s.Keepalive.Duration <= 0 {
		errs = append(errs, field.Invalid(at.Child("keepalive"), s.Keepalive.String(), "must be positive"))
	}
	if s.KeepaliveMax < minKeepaliveMax {
		errs = append(errs, field.Invalid(at.Child("keepaliveMax"), s.KeepaliveMax, "must be at least 1"))
	}
	return errs
}

// validHop wants a user and a host, and nothing else but a port.
func validHop(at *field.Path, value, endpoint string) field.ErrorList {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "ssh" || u.User.Username() == "" || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return field.ErrorList{field.Invalid(at, value, "must be user@host or user@host:port")}
	}
	if _, given := u.User.Password(); given {
		return field.ErrorList{field.Invalid(at, "(hidden)", "must not hold a password: give a key")}
	}
	return nil
}
