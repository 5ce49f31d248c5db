package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/burstlet/burstlet/backend/cri/criconfig"
)

// Validate returns every wrong field by its path in the file. What only a
// backend can judge, the form of an AWS role for example, it leaves to that
// backend.
func (c *Configuration) Validate() error {
	var errs field.ErrorList
	if c.APIVersion != APIVersion {
		errs = append(errs, oneOf(field.NewPath("apiVersion"), c.APIVersion, APIVersion))
	}
	if c.Kind != Kind {
		errs = append(errs, oneOf(field.NewPath("kind"), c.Kind, Kind))
	}
	if len(c.Nodes) == 0 {
		own := c.own()
		errs = append(errs, own.validate(nil)...)
	} else {
		errs = append(errs, c.validateNodes()...)
	}
	errs = append(errs, c.Client.validate(field.NewPath("client"))...)
	errs = append(errs, c.validateElection(field.NewPath("leaderElection"))...)
	errs = append(errs, c.validateHealthz()...)
	errs = append(errs, c.Logging.validate(field.NewPath("logging"))...)
	errs = append(errs, c.validateShutdown(field.NewPath("shutdown"))...)
	joined := make([]error, len(errs))
	for i, err := range errs {
		joined[i] = err
	}
	return errors.Join(joined...)
}

// validate judges one node; at is where it stands in the file, nil for its top.
func (e *NodeEntry) validate(at *field.Path) field.ErrorList {
	errs := e.Node.validate(at.Child("node"))
	errs = append(errs, e.validateCredential(at)...)
	errs = append(errs, e.Backend.validate(at.Child("backend"))...)
	errs = append(errs, e.validateCapacity(at.Child("node", "capacity"))...)
	errs = append(errs, e.KubeletAPI.validate(at.Child("kubeletAPI"))...)
	errs = append(errs, e.validateDNS(at)...)
	if b := e.Backend; b.Type == BackendECS && b.ECS != nil && b.ECS.ClusterDNS != "" && len(e.ClusterDNS) == 0 {
		errs = append(
			errs, field.Required(at.Child("clusterDNS"), "the name servers that backend.ecs.clusterDNS says tasks can reach"),
		)
	}
	errs = append(errs, e.Pods.validate(at.Child("pods"))...)
	errs = append(errs, e.Images.validate(at.Child("images"))...)
	if e.Backend.Type == BackendECS && e.Images.CredentialProviderConfigFile != "" {
		errs = append(errs, field.Forbidden(at.Child(
			"images", "imageCredentialProviderConfigFile",
		), "Fargate pulls images by itself: "+
			"give backend.ecs.executionRoleARN the right to pull from ECR, and pods pull secrets for other registries"))
	}
	return append(errs, e.Eviction.validate(at.Child("eviction"), &e.Backend)...)
}

// validateCapacity: Fargate has no size of its own, and a node without one takes
// no pods.
func (e *NodeEntry) validateCapacity(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if e.Backend.Type == BackendCRI && e.Backend.CRI != nil {
		return e.Backend.CRI.validateReserved(e.Node.Capacity, at)
	}
	if e.Backend.Type != BackendECS {
		return nil
	}
	const why = "the ecs backend has no size of its own: say how much of the account's Fargate quota the node may use"
	if e.Node.Capacity.CPU == nil {
		errs = append(errs, field.Required(at.Child("cpu"), why))
	}
	if e.Node.Capacity.Memory == nil {
		errs = append(errs, field.Required(at.Child("memory"), why))
	}
	return errs
}

// provider.IdentityAnnotation and HolderAnnotation.
const (
	identityAnnotation = "burstlet.dev/identity"
	holderAnnotation   = "burstlet.dev/holder"
)

func (n *Node) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "the name of the Node that the credential is for"))
	} else {
		errs = append(errs, invalid(at.Child("name"), n.Name, apivalidation.NameIsDNSSubdomain(n.Name, false))...)
	}
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(n.Identity) > maxIdentity || strings.ContainsFunc(n.Identity, unprintable) {
		errs = append(errs, field.Invalid(at.Child("identity"), n.Identity,
			fmt.Sprintf("must be at most %d printable ASCII characters", maxIdentity)))
	}
	errs = append(errs, supported(at.Child("onOtherProcess"), n.OnOtherProcess, otherProcesses()...)...)
	errs = append(errs, metav1validation.ValidateLabels(n.Labels, at.Child("labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(n.Annotations, at.Child("annotations"))...)
	if _, ok := n.Annotations[holderAnnotation]; ok {
		errs = append(errs, field.Forbidden(at.Child("annotations").Key(holderAnnotation), "burstlet writes it"))
	}
	if _, ok := n.Annotations[identityAnnotation]; ok {
		errs = append(errs, field.Forbidden(at.Child("annotations").Key(identityAnnotation),
			"burstlet writes it: set "+at.Child("identity").String()))
	}
	for i, taint := range n.Taints {
		errs = append(errs, validateTaint(taint, at.Child("taints").Index(i))...)
	}
	for name, quantity := range n.Capacity.byName() {
		path := at.Child("capacity", string(name))
		switch {
		case quantity == nil:
		case quantity.Sign() < 0:
			errs = append(errs, field.Invalid(path, quantity.String(), "must not be negative"))
		case name == corev1.ResourcePods && quantity.MilliValue()%1000 != 0:
			errs = append(errs, field.Invalid(path, quantity.String(), "must be a whole number"))
		}
	}
	if n.InternalIP != "" {
		errs = append(errs, validIP(at.Child("internalIP"), n.InternalIP)...)
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}

func validateTaint(taint corev1.Taint, at *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelName(taint.Key, at.Child("key"))
	errs = append(errs, invalid(at.Child("value"), taint.Value, validation.IsValidLabelValue(taint.Value))...)
	return append(errs, supported(at.Child("effect"), string(taint.Effect), taintEffects()...)...)
}

func (c *Client) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !(c.QPS > 0) || math.IsInf(float64(c.QPS), 0) {
		errs = append(errs, field.Invalid(at.Child("qps"), c.QPS, "must be greater than 0"))
	}
	if c.Burst < minBurst {
		errs = append(errs, field.Invalid(at.Child("burst"), c.Burst, "must be at least 1"))
	}
	return errs
}

func (b *Backend) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if b.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "one of "+strings.Join(backends(), ", ")))
	} else {
		errs = append(errs, supported(at.Child("type"), b.Type, backends()...)...)
	}
	for _, section := range []struct {
		name  string
		given bool
	}{{BackendSim, b.Sim != nil}, {BackendCRI, b.CRI != nil}, {BackendECS, b.ECS != nil}} {
		if section.given && section.name != b.Type {
			errs = append(
				errs,
				field.Forbidden(
					at.Child(section.name), fmt.Sprintf("backend.type is %q; nothing of another backend may be set", b.Type),
				),
			)
		}
	}
	switch {
	case b.Type == BackendSim && b.Sim != nil:
		errs = append(errs, b.Sim.validate(at.Child(BackendSim))...)
	case b.Type == BackendCRI && b.CRI != nil:
		errs = append(errs, b.CRI.validate(at.Child(BackendCRI))...)
	case b.Type == BackendECS && b.ECS != nil:
		errs = append(errs, b.ECS.validate(at.Child(BackendECS))...)
	}
	return errs
}

func (s *Sim) validate(at *field.Path) field.ErrorList {
	if s.Socket == "" {
		return supported(at.Child("granularity"), s.Granularity, granularities()...)
	}
	errs := validSocket(at.Child("socket"), s.Socket, "unix:///run/burstlet-sim.sock")
	if s.Granularity != "" {
		errs = append(
			errs, field.Forbidden(at.Child("granularity"), "the process behind socket decides (burstlet sim --pod-unit)"),
		)
	}
	return errs
}

func (k *KubeletAPI) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if k.Address != "" {
		errs = append(errs, validIP(at.Child("address"), k.Address)...)
	}
	errs = append(errs, invalid(at.Child("port"), k.Port, validation.IsValidPortNum(k.Port))...)
	if k.EnableSystemLogQuery && !k.EnableSystemLogHandler {
		errs = append(errs, field.Invalid(at.Child("enableSystemLogQuery"), true, "needs enableSystemLogHandler"))
	}
	return append(errs, k.validateCertificate(at)...)
}

func (e *NodeEntry) validateDNS(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, server := range e.ClusterDNS {
		errs = append(errs, validIP(at.Child("clusterDNS").Index(i), server)...)
	}
	domain := strings.TrimSuffix(e.ClusterDomain, ".")
	return append(errs, invalid(at.Child("clusterDomain"), e.ClusterDomain, validation.IsDNS1123Subdomain(domain))...)
}

func (p *Pods) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.StaticPodPath != "" && !filepath.IsAbs(p.StaticPodPath) {
		errs = append(errs, field.Invalid(at.Child("staticPodPath"), p.StaticPodPath, "must be an absolute path"))
	}
	if u, err := url.Parse(p.StaticPodURL); p.StaticPodURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" &&
		u.Scheme != "https") {
		errs = append(errs, field.Invalid(at.Child("staticPodURL"), p.StaticPodURL, "must be an http or https URL"))
	}
	if p.APIServer != "" {
		if a, err := netip.ParseAddrPort(p.APIServer); err != nil || a.Port() == 0 {
			errs = append(
				errs, field.Invalid(at.Child("apiServer"), p.APIServer, "must be an IP address and a port, as in 192.0.2.1:6443"),
			)
		}
	}
	errs = append(errs, criconfig.HostPathErrors(at.Child("hostPaths"), p.hostPaths())...)
	if p.MaxParallelImagePulls < minParallelPulls {
		errs = append(errs, field.Invalid(at.Child("maxParallelImagePulls"), p.MaxParallelImagePulls, "must be at least 1"))
	}
	return errs
}

func (l *Logging) validate(at *field.Path) field.ErrorList {
	errs := supported(at.Child("level"), l.Level, logLevels()...)
	return append(errs, supported(at.Child("format"), l.Format, logFormats()...)...)
}

// invalid makes errors of what a validation function said.
func invalid(at *field.Path, value any, complaints []string) field.ErrorList {
	var errs field.ErrorList
	for _, complaint := range complaints {
		errs = append(errs, field.Invalid(at, value, complaint))
	}
	return errs
}

func supported(at *field.Path, value string, values ...string) field.ErrorList {
	if slices.Contains(values, value) {
		return nil
	}
	return field.ErrorList{oneOf(at, value, values...)}
}

// ifSet takes nothing too.
func ifSet(at *field.Path, value string, values ...string) field.ErrorList {
	if value == "" {
		return nil
	}
	return supported(at, value, values...)
}

func oneOf(at *field.Path, value string, values ...string) *field.Error {
	return field.NotSupported(at, value, values)
}

// validSocket takes the URL of a unix socket.
func validSocket(at *field.Path, value, example string) field.ErrorList {
	if path, ok := strings.CutPrefix(value, "unix://"); !ok || !filepath.IsAbs(path) {
		return field.ErrorList{field.Invalid(at, value, "must be unix:// and an absolute path, as in "+example)}
	}
	return nil
}

// validIP takes addresses in the one form that every program reads alike.
func validIP(at *field.Path, value string) field.ErrorList {
	if ip, err := netip.ParseAddr(value); err != nil || ip.Zone() != "" {
		return field.ErrorList{field.Invalid(at, value, "must be an IP address")}
	}
	return nil
}
