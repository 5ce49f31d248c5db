package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// jitter is by how much client-go's election draws out the pause of a retry.
const jitter = 1.2

// validateElection judges nothing while there is no election.
func (c *Configuration) validateElection(at *field.Path) field.ErrorList {
	l := &c.LeaderElection
	if !l.Enabled {
		return nil
	}
	var errs field.ErrorList
	if l.Namespace == "" {
		errs = append(
			errs, field.Required(at.Child("namespace"), "this process runs in no pod whose namespace would be taken"),
		)
	} else {
		errs = append(errs, invalid(at.Child("namespace"), l.Namespace, validation.IsDNS1123Label(l.Namespace))...)
	}
	var names []string
	for _, one := range c.Each() {
		if l.Name != "" || one.Node.Name != "" {
			names = append(names, one.LeaseName())
		}
	}
	for _, name := range slices.Compact(names) { // all nodes may have one
		errs = append(errs, invalid(at.Child("name"), name, apivalidation.NameIsDNSSubdomain(name, false))...)
	}
	lease, deadline, retry := l.LeaseDuration.Duration, l.RenewDeadline.Duration, l.RetryPeriod.Duration
	wrong := func(name string, value time.Duration, why string) {
		errs = append(errs, field.Invalid(at.Child(name), value.String(), why))
	}
	if lease < time.Second || lease%time.Second != 0 {
		wrong("leaseDuration", lease, "must be whole seconds, at least one")
	}
	if lease <= deadline {
		wrong("leaseDuration", lease, "must be longer than renewDeadline")
	}
	if deadline <= time.Duration(jitter*float64(retry)) {
		wrong("renewDeadline", deadline, fmt.Sprintf("must be longer than %v times retryPeriod", jitter))
	}
	if retry <= 0 {
		wrong("retryPeriod", retry, "must be greater than 0")
	}
	return errs
}

// LeaseName is the name of the Lease that the node's leader holds: its own, or that of all nodes
// of the process.
func (c *Configuration) LeaseName() string {
	if c.LeaderElection.Name != "" {
		return c.LeaderElection.Name
	}
	return c.OwnLeaseName()
}

// OwnLeaseName is the name of the Lease that the node's leader holds unless the nodes of the
// process have one.
func (c *Configuration) OwnLeaseName() string { return "burstlet-" + c.Node.Name }

func (c *Configuration) validateShutdown(at *field.Path) field.ErrorList {
	s := &c.Shutdown
	errs := supported(at.Child("mode"), s.Mode, shutdownModes()...)
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"flushTimeout", s.FlushTimeout.Duration},
		{"gracePeriod", s.GracePeriod.Duration},
		{"gracePeriodCriticalPods", s.GracePeriodCriticalPods.Duration},
	} {
		if d.value < 0 {
			errs = append(errs, field.Invalid(at.Child(d.name), d.value.String(), "must not be negative"))
		}
	}
	if s.Mode != ShutdownDrain {
		return errs
	}
	if s.GracePeriod.Duration < time.Second {
		errs = append(errs, field.Invalid(at.Child("gracePeriod"), s.GracePeriod.String(), "must be at least 1s to drain"))
	}
	if s.GracePeriodCriticalPods.Duration > s.GracePeriod.Duration {
		errs = append(errs, field.Invalid(at.Child("gracePeriodCriticalPods"), s.GracePeriodCriticalPods.String(),
			"is a part of gracePeriod and must not be longer"))
	}
	if c.LeaderElection.Enabled {
		errs = append(errs, field.Invalid(at.Child("mode"), s.Mode,
			"excludes leaderElection: whoever leads next takes the pods over"))
	}
	return errs
}

func (c *Configuration) validateHealthz() field.ErrorList {
	if c.HealthzPort == 0 {
		if c.HealthzMetrics {
			return field.ErrorList{field.Invalid(field.NewPath("healthzMetrics"), true, "needs healthzPort, which serves them")}
		}
		return nil
	}
	errs := invalid(field.NewPath("healthzPort"), c.HealthzPort, validation.IsValidPortNum(c.HealthzPort))
	return append(errs, validIP(field.NewPath("healthzBindAddress"), c.HealthzBindAddress)...)
}

// validateCredential judges where the node's certificates come from and are kept.
func (e *NodeEntry) validateCredential(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if e.BootstrapKubeconfig != "" && e.Kubeconfig != "" {
		errs = append(errs, field.Invalid(at.Child("bootstrapKubeconfig"), e.BootstrapKubeconfig, "excludes kubeconfig"))
	}
	if e.ImpersonateNode && e.BootstrapKubeconfig != "" {
		errs = append(errs, field.Invalid(at.Child("impersonateNode"), true,
			"excludes bootstrapKubeconfig, which gets the node a credential of its own"))
	}
	if (e.BootstrapKubeconfig != "" || e.KubeletAPI.ServerTLSBootstrap) && !filepath.IsAbs(e.CertDirectory) {
		errs = append(errs, field.Invalid(at.Child("certDirectory"), e.CertDirectory, "must be an absolute path"))
	}
	return errs
}

// validateCertificate: there are three ways to a serving certificate, of which
// one may be taken.
func (k *KubeletAPI) validateCertificate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	files := k.CertFile != "" || k.KeyFile != ""
	switch {
	case files && k.SelfSigned:
		errs = append(errs, field.Invalid(at.Child("selfSigned"), true, "excludes certFile and keyFile"))
	case files && k.CertFile == "":
		errs = append(errs, field.Required(at.Child("certFile"), "keyFile is set; both belong together"))
	case files && k.KeyFile == "":
		errs = append(errs, field.Required(at.Child("keyFile"), "certFile is set; both belong together"))
	}
	if k.ServerTLSBootstrap && (files || k.SelfSigned) {
		errs = append(errs, field.Invalid(at.Child("serverTLSBootstrap"), true, "excludes certFile, keyFile and selfSigned"))
	}
	return append(errs, k.validateSigner(at.Child("signerName"))...)
}

func (k *KubeletAPI) validateSigner(at *field.Path) field.ErrorList {
	if k.SignerName == "" {
		return nil
	}
	var errs field.ErrorList
	if !k.ServerTLSBootstrap {
		errs = append(errs, field.Forbidden(at, "needs serverTLSBootstrap"))
	}
	if domain, path, ok := strings.Cut(k.SignerName, "/"); !ok || domain == "" || path == "" {
		errs = append(
			errs, field.Invalid(at, k.SignerName, "must be a domain and a path, as in kubernetes.io/kubelet-serving"),
		)
	}
	return errs
}
