package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// settingFlag is a flag for a setting. It keeps the text that was given, since
// the file, which it goes above, is read later.
type settingFlag struct {
	setting config.Setting
	text    string
}

// String returns what was given.
func (f *settingFlag) String() string { return f.text }

// Set refuses a text that cannot be the setting's value.
func (f *settingFlag) Set(text string) error {
	if err := f.setting.Check(text); err != nil {
		return err
	}
	f.text = text
	return nil
}

// Type is the word for the value in the help; none for a switch.
func (f *settingFlag) Type() string {
	if f.setting.Switch {
		return "bool"
	}
	return "string"
}

// addSettings makes a flag for each setting.
func addSettings(flags *pflag.FlagSet) {
	for _, s := range config.Settings() {
		flag := flags.VarPF(&settingFlag{setting: s}, s.Flag, "", s.Usage+" ($"+s.Env()+")")
		if s.Switch {
			flag.NoOptDefVal = "true"
		}
	}
}

// hideSettings leaves settings out of the help of a command that they do not concern, by
// the beginnings of their paths. They may still be given, as what "burstlet run" is given.
func hideSettings(flags *pflag.FlagSet, paths ...string) {
	flags.VisitAll(func(f *pflag.Flag) {
		s, ok := f.Value.(*settingFlag)
		f.Hidden = ok && slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(s.setting.Path, path) })
	})
}

// givenSettings are the settings that the command line gave, by flag.
func givenSettings(flags *pflag.FlagSet) map[string]string {
	given := map[string]string{}
	flags.Visit(func(f *pflag.Flag) {
		if s, ok := f.Value.(*settingFlag); ok {
			given[f.Name] = s.text
		}
	})
	return given
}

// loadConfig reads the configuration of a command: a file, the environment and the flags.
func loadConfig(file string, flags *pflag.FlagSet) (config.Configuration, error) {
	return config.Load(config.Sources{
		File: file, LookupEnv: os.LookupEnv, Flags: givenSettings(flags), PodNamespace: podNamespace(),
	})
}
