package binaries

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// program is one that is to be built.
type program struct {
	tool Tool
	source
}

// batch are programs that one go command builds: those of a module, so that what
// they share is compiled once and one is linked while others are compiled. A test
// binary stands alone.
type batch []program

// lines groups programs for building: a line's batches are built one after the other,
// and the lines side by side. What has the libraries of the same Kubernetes stands in one
// line, where each batch finds compiled what the one before has: two go commands at a
// time would compile it twice. Kubernetes goes first in it, its test binary last.
func lines(programs []program) [][]batch {
	batches := map[string]batch{}
	for _, p := range programs {
		batches[p.batch()] = append(batches[p.batch()], p)
	}
	var lines [][]batch
	for _, line := range [][]string{
		{"kubernetes", string(CoreDNS), string(MetricsServer), string(Helm), "kubernetes tests"},
		{
			string(Etcd), string(Containerd17), string(Containerd2),
			KubeAPIServer137.pinName(), KubeAPIServer135.pinName(), KubeAPIServer134.pinName(),
		},
	} {
		var found []batch
		for _, name := range line {
			if b := batches[name]; len(b) > 0 {
				found = append(found, b)
			}
		}
		if len(found) > 0 {
			lines = append(lines, found)
		}
	}
	return lines
}

// batch names the batch of a program: those of one module have the same flags of the linker.
func (p program) batch() string {
	switch {
	case p.test:
		return p.tool.pinName() + " tests"
	case p.tool.module() != kubernetesModule && p.tool.pinName() == KubeAPIServer.pinName():
		return string(p.tool)
	}
	return p.tool.pinName()
}

// names are those of programs, for people.
func names(programs []program) string {
	var all []string
	for _, p := range programs {
		all = append(all, string(p.tool))
	}
	return strings.Join(all, ", ")
}

// command is the go command that builds a batch into dir.
func (b batch) command(dir string) []string {
	command := []string{"build"}
	if b[0].test {
		command = []string{"test", "-c", "-vet=off"}
	}
	command = append(command, "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", b[0].ldflags, "-o")
	if len(b) == 1 {
		return append(command, b.out(dir, b[0]), b[0].pkg)
	}
	command = append(command, dir+string(filepath.Separator))
	for _, p := range b {
		command = append(command, p.pkg)
	}
	return slices.Clip(command)
}

// out is where the command leaves a program. Of several it names each as its package; one
// alone is named here, for the package of etcd is called server.
func (b batch) out(dir string, p program) string {
	if len(b) == 1 {
		return filepath.Join(dir, string(p.tool))
	}
	return filepath.Join(dir, path.Base(p.pkg))
}
