package intask

import "strconv"

// What the backend tells the program through the environment of its containers.
// Nothing that begins with EnvPrefix reaches a process of the pod.
const (
	EnvPrefix = "BURSTLET_"
	// EnvDirs lists, as JSON of []Dir, the empty volumes that want a mode or group.
	EnvDirs = "BURSTLET_DIRS"
	// EnvPayload is the name of the first secret with the files of this pod alone, or of
	// the object (ObjectName): of burstlet-init and, to have them refreshed, of
	// burstlet-agent.
	EnvPayload = "BURSTLET_PAYLOAD"
	// EnvPayloadKey is what those are encrypted with.
	EnvPayloadKey = "BURSTLET_PAYLOAD_KEY"
	// EnvWait names the containers that the agent waits for, separated by commas;
	// empty: it lives until it is stopped.
	EnvWait = "BURSTLET_WAIT"
	// EnvRefresh is how often the agent looks for changed files, as Go writes a
	// duration ("5m0s"); empty is 5 minutes, "0s" is never.
	EnvRefresh = "BURSTLET_REFRESH"
	// EnvReportQueue is the URL of the queue to which burstlet-agent tells how the containers
	// are; empty: it does not. EnvReportOf names those whose readiness is told, separated by
	// commas, EnvReportLives those whose end is, and EnvReportKey is what it signs
	// with.
	EnvReportQueue = "BURSTLET_REPORT_QUEUE"
	EnvReportOf    = "BURSTLET_REPORT_CONTAINERS"
	EnvReportLives = "BURSTLET_REPORT_LIVES"
	EnvReportKey   = "BURSTLET_REPORT_KEY"
	// EnvSupervise is the Spec of a container of the pod.
	EnvSupervise = "BURSTLET_SUPERVISE"
	// EnvHostname is of one pod: its host name, and after a space its full one where
	// it has a subdomain.
	EnvHostname = "BURSTLET_HOSTNAME"
	// EnvRunDirs names the pod's containers to burstlet-init, separated by commas:
	// each has a directory in RunDir that root alone may enter.
	EnvRunDirs = "BURSTLET_RUN_DIRS"
)

// Paths in containers.
const (
	// Program is the binary in the image of the in-task containers.
	Program = "/burstlet-task"
	// VolumesDir is where burstlet-init and burstlet-agent find each volume, by name.
	VolumesDir = "/burstlet/volumes"
	// BinDir is a volume: burstlet-init writes the binary to it.
	BinDir = "/burstlet/bin"
	// Supervisor is the binary in the pod's containers.
	Supervisor = BinDir + "/burstlet-task"
	// RunDir is a volume of one container: its state and its socket. In burstlet-init
	// and burstlet-agent it holds those of all containers, by name.
	RunDir = "/burstlet/run"
	// AgentSocket is the name of the session server's socket in a run directory.
	AgentSocket = "agent.sock"
	// AgentRunDir is the agent's own, a plain directory.
	AgentRunDir = RunDir + "/burstlet-agent"
	// subDir holds volumes of which parts are mounted.
	subDir = "/burstlet/sub"
)

// What the environment and the arguments of a container hold in the place of
// addresses that are not known before its task runs. The supervisor puts them in.
const (
	LatePodIP   = "((burstlet:status.podIP))"
	LatePodIPs  = "((burstlet:status.podIPs))"
	LateHostIP  = "((burstlet:status.hostIP))"
	LateHostIPs = "((burstlet:status.hostIPs))"
)

// FilesEnv is the variable with the part i of the files that pods of one shape
// share.
func FilesEnv(i int) string { return "BURSTLET_FILES_" + strconv.Itoa(i) }

// SubDir is where the i-th volume of which a part is mounted stands whole.
func SubDir(i int) string { return subDir + "/" + strconv.Itoa(i) }
