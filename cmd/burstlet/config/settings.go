package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Setting is a field that a flag and an environment variable can give too.
type Setting struct {
	// Flag is the flag's name, without dashes.
	Flag string
	// Path is the field in the file.
	Path string
	// Usage is the flag's help.
	Usage string
	// Switch is true for a flag that may stand without a value.
	Switch bool
	set    func(c *Configuration, text string) error
	get    func(c *Configuration) string
}

// Value is what the setting is in a configuration, as a flag would give it.
func (s Setting) Value(c Configuration) string { return s.get(&c) }

// Env is the name of the setting's environment variable: BURSTLET_ and the
// flag's name in capitals.
func (s Setting) Env() string {
	return "BURSTLET_" + strings.ToUpper(strings.ReplaceAll(s.Flag, "-", "_"))
}

// Check says whether a text can be the setting's value at all.
func (s Setting) Check(text string) error {
	scratch := Default()
	return s.set(&scratch, text)
}

// Settings returns all settings in the order of the file. Lists are given with
// commas between their elements.
func Settings() []Setting {
	return []Setting{
		text("node-name", "node.name", "name of the Node",
			func(c *Configuration) *string { return &c.Node.Name }),
		text("node-internal-ip", "node.internalIP", "address at which the API server reaches this process",
			func(c *Configuration) *string { return &c.Node.InternalIP }),
		text("kubeconfig", "kubeconfig", "file with the access to the API server",
			func(c *Configuration) *string { return &c.Kubeconfig }),
		text("bootstrap-kubeconfig", "bootstrapKubeconfig", "file with the access that requests the node's own",
			func(c *Configuration) *string { return &c.BootstrapKubeconfig }),
		text("cert-dir", "certDirectory", "directory of the certificates that the cluster issued",
			func(c *Configuration) *string { return &c.CertDirectory }),
		text("backend", "backend.type", "where pods run: sim, cri or ecs",
			func(c *Configuration) *string { return &c.Backend.Type }),
		text("sim-socket", "backend.sim.socket", "socket of a burstlet sim (unix://…)",
			func(c *Configuration) *string { return &c.Backend.sim().Socket }),
		text("sim-granularity", "backend.sim.granularity", "unit of restart of the simulated backend: container or pod",
			func(c *Configuration) *string { return &c.Backend.sim().Granularity }),
		text("cri-endpoint", "backend.cri.endpoint",
			"container runtime: its socket here (unix:///…), or its host (ssh://user@host[:port])",
			func(c *Configuration) *string { return &c.Backend.cri().Endpoint }),
		text("ecs-region", "backend.ecs.region", "AWS region",
			func(c *Configuration) *string { return &c.Backend.ecs().Region }),
		text("ecs-cluster", "backend.ecs.cluster", "name or ARN of the ECS cluster",
			func(c *Configuration) *string { return &c.Backend.ecs().Cluster }),
		list("ecs-subnets", "backend.ecs.subnets", "ids of the tasks' subnets",
			func(c *Configuration) *[]string { return &c.Backend.ecs().Subnets }),
		text("kubelet-api-address", "kubeletAPI.address", "IP address of the kubelet API (empty: all)",
			func(c *Configuration) *string { return &c.KubeletAPI.Address }),
		number("kubelet-api-port", "kubeletAPI.port", "port of the kubelet API",
			func(c *Configuration) *int { return &c.KubeletAPI.Port }),
		text("kubelet-api-cert-file", "kubeletAPI.certFile", "serving certificate of the kubelet API, PEM",
			func(c *Configuration) *string { return &c.KubeletAPI.CertFile }),
		text("kubelet-api-key-file", "kubeletAPI.keyFile", "key of that certificate, PEM",
			func(c *Configuration) *string { return &c.KubeletAPI.KeyFile }),
		yesNo("kubelet-api-self-signed", "kubeletAPI.selfSigned", "serve with a self-signed certificate",
			func(c *Configuration) *bool { return &c.KubeletAPI.SelfSigned }),
		yesNo("kubelet-api-server-tls-bootstrap", "kubeletAPI.serverTLSBootstrap",
			"request the serving certificate from the cluster",
			func(c *Configuration) *bool { return &c.KubeletAPI.ServerTLSBootstrap }),
		text("kubelet-api-signer-name", "kubeletAPI.signerName", "signer asked for that certificate",
			func(c *Configuration) *string { return &c.KubeletAPI.SignerName }),
		text("kubelet-api-client-ca-file", "kubeletAPI.clientCAFile", "CAs of client certificates, PEM",
			func(c *Configuration) *string { return &c.KubeletAPI.ClientCAFile }),
		list("cluster-dns", "clusterDNS", "IP addresses of the cluster's DNS",
			func(c *Configuration) *[]string { return &c.ClusterDNS }),
		text("cluster-domain", "clusterDomain", "DNS domain of the cluster",
			func(c *Configuration) *string { return &c.ClusterDomain }),
		text("pods-api-server", "pods.apiServer", "IP address and port at which pods reach the API server",
			func(c *Configuration) *string { return &c.Pods.APIServer }),
		yesNo("leader-elect", "leaderElection.enabled", "run a node only while holding its lease",
			func(c *Configuration) *bool { return &c.LeaderElection.Enabled }),
		text("leader-elect-namespace", "leaderElection.namespace", "namespace of that lease",
			func(c *Configuration) *string { return &c.LeaderElection.Namespace }),
		text("healthz-bind-address", "healthzBindAddress", "IP address of the health port",
			func(c *Configuration) *string { return &c.HealthzBindAddress }),
		number("healthz-port", "healthzPort", "port of /healthz and /readyz, plain HTTP (0: none)",
			func(c *Configuration) *int { return &c.HealthzPort }),
		text("log-level", "logging.level", "error, warn, info, debug or trace",
			func(c *Configuration) *string { return &c.Logging.Level }),
		text("log-format", "logging.format", "text or json",
			func(c *Configuration) *string { return &c.Logging.Format }),
		span("shutdown-flush-timeout", "shutdown.flushTimeout", "how long the last statuses may take to be written",
			func(c *Configuration) *Duration { return &c.Shutdown.FlushTimeout }),
		text("shutdown-mode", "shutdown.mode", "leave pods on the remote, or drain it",
			func(c *Configuration) *string { return &c.Shutdown.Mode }),
	}
}

func text(flag, path, usage string, field func(*Configuration) *string) Setting {
	return Setting{Flag: flag, Path: path, Usage: usage, set: func(c *Configuration, text string) error {
		*field(c) = text
		return nil
	}, get: func(c *Configuration) string { return *field(c) }}
}

func list(flag, path, usage string, field func(*Configuration) *[]string) Setting {
	return Setting{Flag: flag, Path: path, Usage: usage, set: func(c *Configuration, text string) error {
		var out []string
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
		*field(c) = out
		return nil
	}, get: func(c *Configuration) string { return strings.Join(*field(c), ",") }}
}

func number(flag, path, usage string, field func(*Configuration) *int) Setting {
	return Setting{Flag: flag, Path: path, Usage: usage, set: func(c *Configuration, text string) error {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*field(c) = n
		return nil
	}, get: func(c *Configuration) string { return strconv.Itoa(*field(c)) }}
}

func yesNo(flag, path, usage string, field func(*Configuration) *bool) Setting {
	return Setting{Flag: flag, Path: path, Usage: usage, Switch: true, set: func(c *Configuration, text string) error {
		switch text {
		case "true":
			*field(c) = true
		case "false":
			*field(c) = false
		default:
			return errors.New("must be true or false")
		}
		return nil
	}, get: func(c *Configuration) string { return strconv.FormatBool(*field(c)) }}
}

func span(flag, path, usage string, field func(*Configuration) *Duration) Setting {
	return Setting{Flag: flag, Path: path, Usage: usage, set: func(c *Configuration, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 10s", text)
		}
		field(c).Duration = d
		return nil
	}, get: func(c *Configuration) string { return field(c).String() }}
}

// Flags are all settings by their flags, with the values that hold, wherever they were
// given. None of them is secret: what authenticates stands in files, and the flags name
// those.
func Flags(c Configuration) map[string]string {
	out := map[string]string{}
	for _, s := range Settings() {
		out[s.Flag] = s.Value(c)
	}
	return out
}
