package host

import "path"

// Where things of a pod stand below its directory.
const (
	volumesDir  = "volumes"
	subPathsDir = "subpaths"
	describeDir = "described"
	filesDir    = "files"
)

// Path is the pod's directory.
func (p PodDir) Path() string { return path.Join(p.Root, p.UID) }

// Volume is where a volume of the pod is mounted or made.
func (p PodDir) Volume(name string) string { return path.Join(p.Path(), volumesDir, name) }

// Described is the file that describes a volume of the pod.
func (p PodDir) Described(name string) string { return path.Join(p.Path(), describeDir, name+".json") }

// SubPath is where a subPath that a container mounts is bound: one directory for
// each attempt of a container, one entry for each of its mounts.
func (p PodDir) SubPath(containerAttempt, mount string) string {
	return path.Join(p.Path(), subPathsDir, containerAttempt, mount)
}

// SubPaths holds those of one attempt of a container.
func (p PodDir) SubPaths(containerAttempt string) string {
	return path.Join(p.Path(), subPathsDir, containerAttempt)
}

// File is a file of the pod's that is no volume: its /etc/hosts, a termination
// message.
func (p PodDir) File(name string) string { return path.Join(p.Path(), filesDir, name) }

// LogMark is the file in a pod's log directory that says whose it is: see Mark.
const LogMark = ".burstlet-node"

// Mark is the file in a pod's directory that holds the identity of the node whose
// pod it is.
func (p PodDir) Mark() string { return path.Join(p.Path(), podMark) }

// podMark is its name.
const podMark = ".burstlet-node"
