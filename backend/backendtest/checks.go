package backendtest

import "github.com/burstlet/burstlet/backend"

// check is one rule of the contract.
type check struct {
	name  string
	needs needs
	run   func(*suite)
}

// known is true for the name of a check.
func known(name string) bool {
	for _, c := range checks {
		if c.name == name {
			return true
		}
	}
	return false
}

// needs are the fields without which a check says nothing.
type needs int

const (
	containerUnit needs = 1 << iota
	podUnit
	imageStore
	logStream
	hints
	severalApps
	fileStore
	commands
	dialling
	attaching
	forwarding
	statistics
	imageRemoval
	pullRecording
	resizing
	hostSignals
	hostShutdown
	hostOOMs
)

func (n needs) missing(b backend.Backend, f Factory) string {
	switch {
	case n&severalApps != 0 && f.MaxApps == 1:
		return "MaxApps is 1"
	case n&containerUnit != 0 && b.Containers == nil:
		return "Containers is nil: the pod is the unit of restart"
	case n&podUnit != 0 && b.Containers != nil:
		return "Containers is lent: the container is the unit of restart"
	case n&imageStore != 0 && b.Images == nil:
		return "Images is nil: the remote pulls by itself"
	case n&logStream != 0 && b.Logs == nil:
		return "Logs is nil"
	case n&hints != 0 && b.Events == nil:
		return "Events is nil"
	}
	return n.missingAccess(b)
}

func (n needs) missingAccess(b backend.Backend) string {
	switch {
	case n&fileStore != 0 && b.Files == nil:
		return "Files is nil: contents travel in the launch"
	case n&commands != 0 && b.Exec == nil:
		return "Exec is nil"
	case n&dialling != 0 && b.Dial == nil:
		return "Dial is nil"
	case n&attaching != 0 && b.Attach == nil:
		return "Attach is nil"
	case n&forwarding != 0 && b.Forward == nil:
		return "Forward is nil"
	case n&statistics != 0 && b.Stats == nil:
		return "Stats is nil"
	}
	return n.missingUpkeep(b)
}

// missingUpkeep is for what changes a remote beside its pods' lives.
func (n needs) missingUpkeep(b backend.Backend) string {
	switch {
	case n&imageRemoval != 0 && b.Store == nil:
		return "Store is nil: images are not ours"
	case n&pullRecording != 0 && b.PullRecords == nil:
		return "PullRecords is nil: images are not ours"
	case n&resizing != 0 && b.Resize == nil:
		return "Resize is nil: a container keeps what it was started with"
	case n&hostSignals != 0 && b.Signals == nil:
		return "Signals is nil: pods share no host"
	case n&hostShutdown != 0 && b.Shutdown == nil:
		return "Shutdown is nil: nobody looks whether the host shuts down"
	case n&hostOOMs != 0 && b.SystemOOMs == nil:
		return "SystemOOMs is nil: pods share no host"
	}
	return ""
}

// checks are all rules, as they stand in the output of a test.
var checks = []check{
	{lendsCheck, 0, lendsAsDeclared},

	{"launch/shows identity at once", 0, launchIdentity},
	{"launch/twice makes one", 0, launchTwice},
	{"launch/twice at the same time makes one", 0, launchConcurrently},
	{"launch/lost reply then replay makes one", 0, launchLostReply},
	{"launch/after an injected error", 0, launchAfterError},
	{"launch/next attempt after the end", 0, launchNextAttempt},
	{"launch/addresses are unique", 0, launchAddresses},

	{"read/Inspect says what List says", 0, inspectEqualsList},
	{"read/Inspect of nothing is empty", 0, inspectUnknown},
	{"read/Inspect of several pods", 0, inspectSeveral},
	{"read/facts survive a restart of the engine", 0, factsAfterReopen},

	{"start/twice makes one", containerUnit, startTwice},
	{"start/lost reply then replay makes one", containerUnit, startLostReply},
	{"start/needs a launched pod", containerUnit, startUnknown},
	{"start/next attempt after an exit", containerUnit, startNextAttempt},

	{"start/an ephemeral container", containerUnit, startEphemeral},

	{"resize/shows in facts, without a restart", resizing | containerUnit, resizeShows},
	{"resize/of the whole pod shows in facts of a container without limits", resizing | containerUnit, resizePodShows},
	{"resize/twice changes nothing", resizing | containerUnit, resizeTwice},
	{"resize/lost reply then replay", resizing | containerUnit, resizeLostReply},
	{"resize/of what does not run is NotFound", resizing | containerUnit, resizeNotRunning},

	{"exit/codes", 0, exitCodes},
	{"exit/times are in order", 0, exitTimes},
	{"exit/of one container leaves the others", severalApps, exitOfOne},
	{"exit/of all containers ends the attempt", podUnit, exitOfAll},
	{"exit/termination message of its file", 0, messageOfFile},
	{"exit/termination message of its log", 0, messageOfLog},
	{"exit/termination message of its file rather than its log", 0, messageOfFileBeforeLog},

	{"init/runs in order before the rest", podUnit, initOrder},
	{"init/failure ends the attempt", podUnit, initFailure},
	{"init/a sidecar ends after the rest", podUnit, initSidecar},

	{"stop/TERM ends it within the grace", 0, stopTerm},
	{"stop/KILL ends it after the grace", 0, stopKill},
	{"stop/grace 0 kills at once", 0, stopNow},
	{"stop/a shorter grace replaces a longer", 0, stopShorter},
	{"stop/a longer grace changes nothing", 0, stopLonger},
	{"stop/what is not there is NotFound", 0, stopUnknown},
	{"stop/ends the attempt and keeps the facts", 0, stopEndsAttempt},
	{"stop/lost reply then replay", 0, stopLostReply},
	{"stop/of one container leaves the others", containerUnit | severalApps, stopContainer},

	{"remove/until NotFound", 0, removeUntilNotFound},
	{"remove/kills what runs", 0, removeRunning},
	{"remove/what is not there is NotFound", 0, removeUnknown},
	{"remove/lost reply then replay", 0, removeLostReply},
	{"remove/one dead container", containerUnit | severalApps, removeContainer},
	{"remove/leaves other pods alone", 0, removeLeavesOthers},

	{"files/Volumes lists what is placed", fileStore, filesVolumes},
	{"files/placing twice changes nothing", fileStore, filesTwice},
	{"files/lost reply then replay", fileStore, filesLostReply},
	{"files/survive a restart of the engine", fileStore, filesAfterReopen},
	{"files/cleared until NotFound", fileStore, filesClear},
	{"files/a swap is seen whole", fileStore | commands, swapSeenWhole},
	{"files/an emptyDir is shared", fileStore | containerUnit | logStream | severalApps, emptyDirShared},
	{"files/contents are what containers read", logStream, volumesAreRead},

	{"exec/exit codes and output", commands, execOutput},
	{"exec/input", commands, execStdin},
	{"exec/several at once", commands, execConcurrently},
	{"exec/what does not run is NotFound", commands, execNotRunning},
	{"exec/what cannot be started is Invalid", commands, execInvalid},
	{"exec/ends with its context", commands, execContext},
	{"exec/big output", commands, execBigOutput},
	{"exec/a terminal", commands, execTerminal},

	{"attach/output from now on until the end", attaching | logStream, attachOutput},
	{"attach/input", attaching, attachInput},
	{"attach/input stays open", attaching | containerUnit, attachAgain},
	{"attach/a terminal", attaching, attachTerminal},
	{"attach/what does not run is NotFound", attaching, attachNotRunning},
	{"attach/ends with its context", attaching, attachContext},

	{"dial/connects to what listens", dialling, dialConnects},
	{"dial/refused where nobody listens", dialling, dialRefused},
	{"dial/ended context", dialling, dialContext},

	{"forward/both ways, each to its end", forwarding, forwardEchoes},
	{"forward/refused where nobody listens", forwarding, forwardRefused},
	{"forward/a pod that has ended is NotFound", forwarding, forwardEnded},
	{"forward/ended context", forwarding, forwardContext},

	{"image/find and pull", imageStore, imageFindAndPull},
	{"image/missing from the registry", 0, imageMissing},

	{"store/lists what is pulled", imageStore | imageRemoval, storeLists},
	{"store/removes what nobody uses", imageStore | imageRemoval, storeRemoves},
	{"store/what a container uses stays", imageStore | imageRemoval | containerUnit, storeKeepsUsed},
	{"store/what is not there is NotFound", imageRemoval, storeUnknown},
	{"store/the disk of images", imageRemoval, storeDisk},
	{"store/records of pulls survive a restart of the engine", pullRecording, pullRecordsAfterReopen},

	{"logs/lines and options", logStream, logOptions},
	{"logs/follow ends with the container", logStream, logFollow},
	{"logs/unknown is NotFound", logStream, logUnknown},

	{"events/a change is hinted at", hints, eventsHint},

	{"stats/of what runs", statistics, statsOfRunning},
	{"stats/counters never go back", statistics, statsCounters},
	{"stats/of what has ended are gone", statistics, statsOfStopped},
	{"stats/ended context", statistics, statsContext},

	{"signals/what the host has left", hostSignals, signalsOfHost},

	{"shutdown/of a host that stays up", hostShutdown, shutdownOfHost},

	{"oom/of a host that has memory", hostOOMs, oomsOfHost},

	{"node/describes itself", 0, nodeDescribe},
	{"check/is pure", 0, checkPure},
	{"context/an ended context ends calls", 0, contextEnded},
}
