package intercept

import (
	"context"
	"strings"

	"github.com/burstlet/burstlet/backend"
)

// Name names a call of the contract: the field of [backend.Backend], and after a dot
// the method where the field is an interface.
type Name string

// Field is the field of [backend.Backend] that lends the call.
func (n Name) Field() string {
	field, _, _ := strings.Cut(string(n), ".")
	return field
}

// The calls of the contract that ask a remote.
const (
	PodsLaunch       Name = "Pods.Launch"
	PodsStop         Name = "Pods.Stop"
	PodsRemove       Name = "Pods.Remove"
	PodsList         Name = "Pods.List"
	PodsInspect      Name = "Pods.Inspect"
	ContainersStart  Name = "Containers.Start"
	ContainersStop   Name = "Containers.Stop"
	ContainersRemove Name = "Containers.Remove"
	ResizeResize     Name = "Resize.Resize"
	FilesPlace       Name = "Files.Place"
	FilesClear       Name = "Files.Clear"
	FilesVolumes     Name = "Files.Volumes"
	FilesRead        Name = "Files.Read"
	RefreshRefresh   Name = "Refresh.Refresh"
	ImagesFind       Name = "Images.Find"
	ImagesPull       Name = "Images.Pull"
	StoreList        Name = "Store.List"
	StoreRemove      Name = "Store.Remove"
	StoreDisk        Name = "Store.Disk"
	PullRecordsLoad  Name = "PullRecords.Load"
	PullRecordsSave  Name = "PullRecords.Save"
	EventsRun        Name = "Events.Run"
	ExecExec         Name = "Exec.Exec"
	AttachAttach     Name = "Attach.Attach"
	ForwardForward   Name = "Forward.Forward"
	LogsOpen         Name = "Logs.Open"
	DialDial         Name = "Dial.Dial"
	StatsStats       Name = "Stats.Stats"
	SignalsSignals   Name = "Signals.Signals"
	ShutdownAwait    Name = "Shutdown.Await"
	SystemOOMsAwait  Name = "SystemOOMs.Await"
	NodeDescribe     Name = "Node.Describe"

	CheckpointCheckpoint Name = "Checkpoint.Checkpoint"
	SystemLogsOpen       Name = "SystemLogs.Open"

	Sweep   Name = "Sweep"
	Confirm Name = "Confirm"
	Run     Name = "Run"
)

// Kind is how long a call lasts and what passes beside its arguments and its reply.
type Kind int

const (
	// Unary calls are one request and one reply, both plain values.
	Unary Kind = iota
	// Stream calls are given or return something that moves data: a connection, a
	// reader, the streams of a command, a channel of hints.
	Stream
	// Background is what a backend does by itself for as long as it lives.
	Background
	// Local calls ask no remote. They are not intercepted.
	Local
)

// Method is what the contract says of a call. The zero value of each flag is the
// careful one.
type Method struct {
	Name Name
	// Does says in a few words what the call does, for errors: "start container".
	Does string
	// Operation is its name in metrics, CRI's where CRI has one.
	Operation string
	Kind      Kind
	// Reads is true of a call that changes nothing on the remote. Every other is
	// refused while the gate is closed.
	Reads bool
	// Makes is true of a call whose effect may appear on the remote long after its
	// reply was lost.
	Makes bool
	// Idempotent is true of a call that may be repeated: the second one changes
	// nothing that the first has changed.
	Idempotent bool
	// Absence is true of a call for which NotFound is an answer and no failure: the
	// proof that nothing is left, or that there is something to make.
	Absence bool
}

// capability is one field of [backend.Backend] and its calls.
type capability struct {
	field   string
	methods []Method
	// lent is true where the field is set.
	lent func(*backend.Backend) bool
	// intercept puts f around the field's calls, whether it is set or not; nil where
	// the calls are Local.
	intercept func(b *backend.Backend, f Func)
}

// capabilities is the contract.
var capabilities = []capability{
	lends(func(b *backend.Backend) *backend.Pods { return &b.Pods },
		func(p backend.Pods, a around) backend.Pods { return pods{p, a} },
		Method{Name: PodsLaunch, Does: "launch", Operation: "run_podsandbox", Makes: true, Idempotent: true},
		Method{Name: PodsStop, Does: "stop", Operation: "stop_podsandbox", Idempotent: true, Absence: true},
		Method{Name: PodsRemove, Does: "remove", Operation: "remove_podsandbox", Idempotent: true, Absence: true},
		Method{Name: PodsList, Does: "list", Operation: "list_podsandbox", Reads: true, Idempotent: true},
		Method{Name: PodsInspect, Does: "inspect", Operation: "podsandbox_status", Reads: true, Idempotent: true}),
	lends(func(b *backend.Backend) *backend.Containers { return &b.Containers },
		func(c backend.Containers, a around) backend.Containers { return containers{c, a} },
		Method{Name: ContainersStart, Does: "start container", Operation: "start_container", Makes: true, Idempotent: true},
		Method{Name: ContainersStop, Does: "stop container", Operation: "stop_container", Idempotent: true, Absence: true},
		Method{
			Name: ContainersRemove, Does: "remove container", Operation: "remove_container",
			Idempotent: true, Absence: true,
		}),
	lends(func(b *backend.Backend) *backend.Resizer { return &b.Resize },
		func(r backend.Resizer, a around) backend.Resizer { return resizer{r, a} },
		Method{Name: ResizeResize, Does: "resize container", Operation: "update_container", Idempotent: true}),
	lends(func(b *backend.Backend) *backend.Files { return &b.Files },
		func(v backend.Files, a around) backend.Files { return files{v, a} },
		Method{Name: FilesPlace, Does: "place volume", Operation: "place_volume", Makes: true, Idempotent: true},
		Method{Name: FilesClear, Does: "clear volumes", Operation: "clear_volumes", Idempotent: true, Absence: true},
		Method{Name: FilesVolumes, Does: "list volumes", Operation: "list_volumes", Reads: true, Idempotent: true},
		Method{Name: FilesRead, Does: "read file", Operation: "read_file", Reads: true, Idempotent: true, Absence: true}),
	lends(func(b *backend.Backend) *backend.Refresher { return &b.Refresh },
		func(r backend.Refresher, a around) backend.Refresher { return refresher{r, a} },
		Method{Name: RefreshRefresh, Does: "refresh volumes", Operation: "refresh_volumes", Idempotent: true}),
	lends(func(b *backend.Backend) *backend.Images { return &b.Images },
		func(i backend.Images, a around) backend.Images { return images{i, a} },
		Method{
			Name: ImagesFind, Does: "find image", Operation: "image_status",
			Reads: true, Idempotent: true, Absence: true,
		},
		Method{Name: ImagesPull, Does: "pull", Operation: "pull_image", Idempotent: true}),
	lends(func(b *backend.Backend) *backend.ImageStore { return &b.Store },
		func(s backend.ImageStore, a around) backend.ImageStore { return store{s, a} },
		Method{Name: StoreList, Does: "list images", Operation: "list_images", Reads: true, Idempotent: true},
		Method{Name: StoreRemove, Does: "remove image", Operation: "remove_image", Idempotent: true, Absence: true},
		Method{Name: StoreDisk, Does: "measure images", Operation: "image_fs_info", Reads: true, Idempotent: true}),
	lends(func(b *backend.Backend) *backend.PullRecords { return &b.PullRecords },
		func(p backend.PullRecords, a around) backend.PullRecords { return pullRecords{p, a} },
		Method{
			Name: PullRecordsLoad, Does: "load records of image pulls", Operation: "load_pull_records",
			Reads: true, Idempotent: true,
		},
		Method{
			Name: PullRecordsSave, Does: "save records of image pulls", Operation: "save_pull_records", Idempotent: true,
		}),
	lends(func(b *backend.Backend) *backend.Events { return &b.Events },
		func(e backend.Events, a around) backend.Events { return events{e, a} },
		Method{
			Name: EventsRun, Does: "follow events", Operation: "container_events",
			Kind: Stream, Reads: true, Idempotent: true,
		}),
	lends(func(b *backend.Backend) *backend.Exec { return &b.Exec },
		func(e backend.Exec, a around) backend.Exec { return execs{e, a} },
		Method{Name: ExecExec, Does: "exec", Operation: "exec", Kind: Stream, Makes: true}),
	lends(func(b *backend.Backend) *backend.Attacher { return &b.Attach },
		func(j backend.Attacher, a around) backend.Attacher { return attacher{j, a} },
		Method{Name: AttachAttach, Does: "attach", Operation: "attach", Kind: Stream}),
	lends(func(b *backend.Backend) *backend.Forwarder { return &b.Forward },
		func(p backend.Forwarder, a around) backend.Forwarder { return forwarder{p, a} },
		Method{Name: ForwardForward, Does: "forward a port", Operation: "port_forward", Kind: Stream, Reads: true}),
	lends(func(b *backend.Backend) *backend.Logs { return &b.Logs },
		func(l backend.Logs, a around) backend.Logs { return logs{l, a} },
		Method{Name: LogsOpen, Does: "read log", Operation: "open_log", Kind: Stream, Reads: true, Idempotent: true}),
	lends(func(b *backend.Backend) *backend.Dialer { return &b.Dial },
		func(d backend.Dialer, a around) backend.Dialer { return dialer{d, a} },
		Method{Name: DialDial, Does: "dial", Operation: "dial", Kind: Stream, Reads: true}),
	lends(func(b *backend.Backend) *backend.Stats { return &b.Stats },
		func(s backend.Stats, a around) backend.Stats { return stats{s, a} },
		Method{
			Name: StatsStats, Does: "measure pods", Operation: "list_podsandbox_stats",
			Reads: true, Idempotent: true,
		}),
	lends(func(b *backend.Backend) *backend.Signals { return &b.Signals },
		func(s backend.Signals, a around) backend.Signals { return signals{s, a} },
		Method{Name: SignalsSignals, Does: "measure the host", Operation: "host_signals", Reads: true, Idempotent: true}),
	lends(func(b *backend.Backend) *backend.Shutdown { return &b.Shutdown },
		func(s backend.Shutdown, a around) backend.Shutdown { return shutdown{s, a} },
		Method{
			Name: ShutdownAwait, Does: "await the host's shutdown", Operation: "await_shutdown",
			Reads: true, Idempotent: true,
		}),
	lends(func(b *backend.Backend) *backend.SystemOOMs { return &b.SystemOOMs },
		func(o backend.SystemOOMs, a around) backend.SystemOOMs { return systemOOMs{o, a} },
		Method{
			Name: SystemOOMsAwait, Does: "await OOM kills of the host", Operation: "await_system_oom",
			Reads: true, Idempotent: true,
		}),
	lends(func(b *backend.Backend) *backend.Checkpointer { return &b.Checkpoint },
		func(c backend.Checkpointer, a around) backend.Checkpointer { return checkpointer{c, a} },
		Method{Name: CheckpointCheckpoint, Does: "checkpoint container", Operation: "checkpoint_container"}),
	lends(func(b *backend.Backend) *backend.SystemLogs { return &b.SystemLogs },
		func(l backend.SystemLogs, a around) backend.SystemLogs { return systemLogs{l, a} },
		Method{
			Name: SystemLogsOpen, Does: "read the host's logs", Operation: "open_system_log",
			Kind: Stream, Reads: true, Idempotent: true,
		}),
	lends(func(b *backend.Backend) *backend.Node { return &b.Node },
		func(n backend.Node, a around) backend.Node { return node{n, a} },
		Method{Name: NodeDescribe, Does: "describe node", Operation: "status", Reads: true, Idempotent: true}),
	lends(func(b *backend.Backend) *sweepFunc { return (*sweepFunc)(&b.Sweep) },
		sweeping, Method{Name: Sweep, Does: "sweep", Operation: "sweep", Idempotent: true}),
	lends(func(b *backend.Backend) *confirmFunc { return (*confirmFunc)(&b.Confirm) },
		confirming, Method{
			Name: Confirm, Does: "confirm the leader", Operation: "confirm_leader", Reads: true, Idempotent: true,
		}),
	lends(func(b *backend.Backend) *runFunc { return (*runFunc)(&b.Run) },
		running, Method{Name: Run, Does: "run the backend", Operation: "run", Kind: Background}),
	local(func(b *backend.Backend) bool { return b.Check != nil }, "Check.Check", "check a pod"),
	local(func(b *backend.Backend) bool { return b.Costs != nil }, "Costs", "say what pods cost"),
	local(func(b *backend.Backend) bool { return b.Links != nil }, "Links", "say how connections are"),
	local(func(b *backend.Backend) bool { return b.Calls != nil }, "Calls", "count requests"),
	local(func(b *backend.Backend) bool { return b.Queues != nil }, "Queues", "count what waits"),
	local(func(b *backend.Backend) bool { return b.CgroupsTo != nil }, "CgroupsTo", "time what is done to pods' cgroups"),
}

type (
	sweepFunc   func(context.Context) ([]string, error)
	confirmFunc func(context.Context) error
	runFunc     func(context.Context, backend.Permit) error
)

// lends is a capability whose calls are intercepted.
func lends[T any](at func(*backend.Backend) *T, wrap func(T, around) T, methods ...Method) capability {
	return capability{
		field: methods[0].Name.Field(), methods: methods,
		lent:      func(b *backend.Backend) bool { return isSet(at(b)) },
		intercept: func(b *backend.Backend, f Func) { *at(b) = wrap(*at(b), around{f, methods}) },
	}
}

// local is a capability that asks no remote.
func local(lent func(*backend.Backend) bool, name Name, does string) capability {
	return capability{
		field: name.Field(), lent: lent,
		methods: []Method{{Name: name, Does: does, Kind: Local, Reads: true, Idempotent: true}},
	}
}

// Methods returns the rows of the table.
func Methods() []Method {
	var all []Method
	for _, c := range capabilities {
		all = append(all, c.methods...)
	}
	return all
}

// Lent names the fields of b that ask the remote and are not nil, in the order of the
// table.
func Lent(b backend.Backend) []string {
	var fields []string
	for _, c := range capabilities {
		if c.intercept != nil && c.lent(&b) {
			fields = append(fields, c.field)
		}
	}
	return fields
}
