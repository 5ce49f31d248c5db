package criconfig

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// SSHScheme is what endpoints on hosts over SSH begin with.
const SSHScheme = "ssh://"

// MinKeepaliveMax is the least number of signs of life without an answer.
const MinKeepaliveMax = 1

const defaultPort = "22"

// SSH says how a host is reached.
type SSH struct {
	// KeyFiles hold private keys; Agent is the socket of an SSH agent. One of them
	// is needed.
	KeyFiles []string
	Agent    string
	// PassphraseFile holds the passphrase of those keys that have one.
	PassphraseFile string
	// KnownHostsFile holds the keys of the host and of the jump hosts. It is needed
	// unless InsecureIgnoreHostKey is set.
	KnownHostsFile        string
	InsecureIgnoreHostKey bool
	// JumpHosts are passed on the way, in order: user@host:port.
	JumpHosts []string
	// JumpKeyFiles are the keys for jump hosts that take others than KeyFiles and Agent, by
	// their entry in JumpHosts.
	JumpKeyFiles map[string][]string
	// Keepalive is the pause between signs of life; default 5 s. KeepaliveMax of
	// them without an answer end a connection; default 3.
	Keepalive    time.Duration
	KeepaliveMax int
	// Helper is the binary that does the host operations, by GOARCH.
	Helper func(goarch string) ([]byte, error)
}

// Errors returns what is wrong; at is where the fields stand in a file. What is 0 is the
// default.
func (s SSH) Errors(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.KeyFiles) == 0 && s.Agent == "" {
		errs = append(errs,
			field.Required(at.Child("keyFiles"), "private keys to log in with, or agent, the socket of an SSH agent"))
	}
	for i, file := range s.KeyFiles {
		if file == "" {
			errs = append(errs, field.Required(at.Child("keyFiles").Index(i), "the path of a private key"))
		}
	}
	switch {
	case s.KnownHostsFile == "" && !s.InsecureIgnoreHostKey:
		errs = append(errs, field.Required(at.Child("knownHostsFile"), "the keys of the host, as ssh-keyscan prints them "+
			"(compare them with the host's own); insecureIgnoreHostKey: true does without, and lets anyone in between read "+
			"and change everything"))
	case s.KnownHostsFile != "" && s.InsecureIgnoreHostKey:
		errs = append(errs, field.Invalid(at.Child("insecureIgnoreHostKey"), true, "excludes knownHostsFile"))
	}
	for i, hop := range s.JumpHosts {
		errs = append(errs, hopErrors(at.Child("jumpHosts").Index(i), hop, SSHScheme+hop)...)
	}
	errs = append(errs, s.jumpKeyErrors(at.Child("jumpKeyFiles"))...)
	if s.Keepalive < 0 {
		errs = append(errs, field.Invalid(at.Child("keepalive"), s.Keepalive.String(), "must be positive"))
	}
	if n := s.KeepaliveMax; n != 0 && n < MinKeepaliveMax {
		errs = append(errs, field.Invalid(at.Child("keepaliveMax"), n, fmt.Sprintf("must be at least %d", MinKeepaliveMax)))
	}
	return errs
}

func (s SSH) jumpKeyErrors(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, hop := range slices.Sorted(maps.Keys(s.JumpKeyFiles)) {
		files := s.JumpKeyFiles[hop]
		switch {
		case !slices.Contains(s.JumpHosts, hop):
			errs = append(errs, field.Invalid(at.Key(hop), hop, "must be an entry of jumpHosts, as it stands there"))
		case len(files) == 0 || slices.Contains(files, ""):
			errs = append(errs, field.Required(at.Key(hop), "the paths of the private keys that it takes"))
		}
	}
	return errs
}

// hopErrors judges user@host, which a field holds as an endpoint or without its scheme.
func hopErrors(at *field.Path, value, endpoint string) field.ErrorList {
	_, err := ParseEndpoint(endpoint)
	switch user, _, found := strings.Cut(strings.TrimPrefix(endpoint, SSHScheme), "@"); {
	case found && strings.Contains(user, ":"):
		return field.ErrorList{field.Invalid(at, "(hidden)", "must not hold a password: give a key")}
	case err != nil, strings.HasSuffix(endpoint, "/"):
		return field.ErrorList{field.Invalid(at, value, "must be user@host or user@host:port")}
	default:
		return nil
	}
}

// Hop is one sshd: who logs in, and where.
type Hop struct {
	User string
	// Address is host:port.
	Address string
	// KeyFiles are its own private keys; none: those of the configuration.
	KeyFiles []string
}

func (h Hop) String() string { return h.User + "@" + h.Address }

// ParseEndpoint takes ssh://user@host[:port] apart. The port is 22 if none is
// given.
func ParseEndpoint(endpoint string) (Hop, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		// The text of url's error holds all of the URL, a password too.
		return Hop{}, errors.New("not a URL of the form ssh://user@host[:port]")
	}
	_, password := u.User.Password()
	switch {
	case u.Scheme != "ssh" || u.Hostname() == "":
		return Hop{}, errors.New("must have the form ssh://user@host[:port]")
	case password:
		return Hop{}, errors.New("must not hold a password: log in with a key")
	case u.User.Username() == "":
		return Hop{}, errors.New("lacks the user: ssh://user@host[:port]")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return Hop{}, errors.New("must end after the port: ssh://user@host[:port]")
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	h := Hop{User: u.User.Username(), Address: net.JoinHostPort(u.Hostname(), port)}
	return h, h.Validate()
}

// Validate says what is wrong with a hop.
func (h Hop) Validate() error {
	name, port, err := net.SplitHostPort(h.Address)
	switch {
	case err != nil:
		return fmt.Errorf("address %q is not host:port", h.Address)
	case name == "":
		return fmt.Errorf("address %q lacks the host", h.Address)
	case h.User == "":
		return errors.New("lacks the user")
	case strings.ContainsAny(h.User+name, " \t\r\n\x00"):
		return errors.New("must not contain white space")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	return nil
}
