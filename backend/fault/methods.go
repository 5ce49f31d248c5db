package fault

import "github.com/burstlet/burstlet/backend/intercept"

// Method names a call of the contract, as the table of package intercept does.
type Method = intercept.Name

// Hint is not a call: it is one hint on its way through Events.Run.
const Hint Method = "Hint"

// The calls that scripts name most, under the names that scripts use. Every other call
// of the table is known too.
const (
	PodsLaunch       = intercept.PodsLaunch
	PodsStop         = intercept.PodsStop
	PodsRemove       = intercept.PodsRemove
	PodsList         = intercept.PodsList
	PodsInspect      = intercept.PodsInspect
	ContainersStart  = intercept.ContainersStart
	ContainersStop   = intercept.ContainersStop
	ContainersRemove = intercept.ContainersRemove
	ResizeResize     = intercept.ResizeResize
	FilesPlace       = intercept.FilesPlace
	FilesClear       = intercept.FilesClear
	FilesVolumes     = intercept.FilesVolumes
	FilesRead        = intercept.FilesRead
	RefreshRefresh   = intercept.RefreshRefresh
	ImagesFind       = intercept.ImagesFind
	ImagesPull       = intercept.ImagesPull
	StoreList        = intercept.StoreList
	StoreRemove      = intercept.StoreRemove
	StoreDisk        = intercept.StoreDisk
	PullRecordsLoad  = intercept.PullRecordsLoad
	PullRecordsSave  = intercept.PullRecordsSave
	EventsRun        = intercept.EventsRun
	ExecExec         = intercept.ExecExec
	AttachAttach     = intercept.AttachAttach
	ForwardForward   = intercept.ForwardForward
	DialDial         = intercept.DialDial
	LogsOpen         = intercept.LogsOpen
	NodeDescribe     = intercept.NodeDescribe
	StatsStats       = intercept.StatsStats
	SignalsSignals   = intercept.SignalsSignals
	ShutdownAwait    = intercept.ShutdownAwait
	SystemOOMsAwait  = intercept.SystemOOMsAwait
)
