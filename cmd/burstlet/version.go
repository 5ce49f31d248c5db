package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/burstlet/burstlet/provider"
)

// version is set by the linker ("make build").
var version string

// versions is what "burstlet version" tells.
type versions struct {
	// Version of burstlet: a tag, a commit, or "devel".
	Version string `json:"version"`
	// Kubernetes is the version of the kubelet that the node behaves as.
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

func currentVersions() versions {
	kubernetes, _, _ := strings.Cut(provider.KubeletVersion(""), "+")
	return versions{
		Version: programVersion(), Kubernetes: kubernetes, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// programVersion is the linker's word, else that of "go install", else "devel".
func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version
	}
	return "devel"
}

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of burstlet, Kubernetes and Go",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, out := currentVersions(), cmd.OutOrStdout()
			switch output {
			case "":
				_, err := fmt.Fprintf(out, "burstlet %s\nKubernetes %s\n%s %s\n", v.Version, v.Kubernetes, v.Go, v.Platform)
				return err
			case "json":
				return json.NewEncoder(out).Encode(v)
			default:
				return fmt.Errorf("flag --output: %q is not json", output)
			}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for a JSON object; empty for text")
	return cmd
}
