package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// FileEnv names the environment variable that gives the file when no flag does.
const FileEnv = "BURSTLET_CONFIG"

// Sources are where a configuration is read from.
type Sources struct {
	// File is the path of the YAML file. Empty: the one that FileEnv names, else
	// none.
	File string
	// LookupEnv finds an environment variable, as os.LookupEnv does. A variable
	// that is empty counts as not set. Nil: there are none.
	LookupEnv func(name string) (value string, ok bool)
	// Flags are the flags that were given, by name without dashes.
	Flags map[string]string
	// PodNamespace is the namespace of the pod that this process runs in; empty if
	// it runs in none. It is the default of leaderElection.namespace.
	PodNamespace string
}

// Load reads the configuration: [Default] or, without a file, [Alone]; above it
// the file, above that the environment, above that the flags. The result is
// complete and valid; otherwise the error names everything that is wrong with
// the file, the variables and the flags that were read.
func Load(from Sources) (Configuration, error) {
	file := from.File
	if file == "" {
		file = from.env(FileEnv)
	}
	var data []byte
	if file != "" {
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return Configuration{}, fmt.Errorf("read configuration: %w", err)
		}
	}
	return from.load(file, data)
}

// load reads the file's content; file is its path, empty for none.
func (s Sources) load(file string, data []byte) (Configuration, error) {
	c := Alone()
	origin := "configuration"
	var entries []json.RawMessage
	if file != "" {
		c, origin = Default(), file
		var err error
		if entries, err = decode(data, &c); err != nil {
			return Configuration{}, fmt.Errorf("read configuration %s: %w", file, err)
		}
	}
	if err := s.override(&c); err != nil {
		return Configuration{}, err
	}
	if file == "" && c.KubeletAPI.ServerTLSBootstrap {
		c.KubeletAPI.SelfSigned = false // that of Alone, unless it was asked for
		if err := s.override(&c); err != nil {
			return Configuration{}, err
		}
	}
	if err := c.complete(entries, s.PodNamespace); err != nil {
		return Configuration{}, fmt.Errorf("read configuration %s: %w", file, err)
	}
	if err := c.Validate(); err != nil {
		return Configuration{}, fmt.Errorf("check %s: %w", origin, err)
	}
	return c, nil
}

// complete fills in what depends on other fields.
func (c *Configuration) complete(entries []json.RawMessage, podNamespace string) error {
	if len(entries) > 0 {
		if err := c.expand(entries); err != nil {
			return err
		}
	} else {
		c.Nodes = nil
		c.Backend.fill()
		c.Eviction.fill(c.Backend.Type)
	}
	if c.LeaderElection.Enabled {
		fill(&c.LeaderElection.Namespace, podNamespace)
	}
	return nil
}

// override lays the environment and then the flags over c.
func (s Sources) override(c *Configuration) error {
	var errs []error
	for _, setting := range Settings() {
		if value := s.env(setting.Env()); value != "" {
			if err := setting.set(c, value); err != nil {
				errs = append(errs, fmt.Errorf("environment variable %s: %w", setting.Env(), err))
			}
		}
		if value, ok := s.Flags[setting.Flag]; ok {
			if err := setting.set(c, value); err != nil {
				errs = append(errs, fmt.Errorf("flag --%s: %w", setting.Flag, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (s Sources) env(name string) string {
	if s.LookupEnv == nil {
		return ""
	}
	value, _ := s.LookupEnv(name)
	return value
}
