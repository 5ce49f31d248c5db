package taskdef

import "github.com/burstlet/burstlet/backend/ecs/identity"

// who says who honours a field of a pod.
type who int

const (
	// honoured: translated into the task.
	honoured who = iota + 1
	// engine: the engine's business above any backend, which refuses what it
	// cannot do itself.
	engine
	// scheduler: used up before the pod reaches a node, or a statement about the
	// pod that changes nothing in how it runs.
	scheduler
	// refused: not possible here.
	refused
	// partly: some values are honoured; check says which are not.
	partly
)

// rule is what becomes of one field: the one table from which Check, explain and
// docs/fields.md are made.
type rule struct {
	who who
	// how says what becomes of it where it is taken.
	how string
	// why tells the user what to do, for refused fields and values.
	why string
	// check says what is refused of the value, for partly. It is only called for a field that is
	// set.
	check func(k *checking, path string, value any, why string) []refusal
}

func refuse(why string) rule { return rule{who: refused, why: why} }

func byEngine(how string) rule { return rule{who: engine, how: how} }

func honour(how string) rule { return rule{who: honoured, how: how} }

func atScheduling() rule {
	return rule{who: scheduler, how: "used before the pod reaches the node"}
}

// supervised is for what a container's supervisor does.
func supervised(how string) rule {
	return rule{who: partly, how: how, check: needsTaskImage, why: whySupervisor}
}

const (
	whySupervisor = "this is done in the task by burstlet's own program: set backend.ecs.taskImage, or remove it"
	orWithout     = "this is done in the task by burstlet's own program: set backend.ecs.taskImage, or do " +
		"without by the annotation " + Prefix + "unenforced"
	whyNoLog = "after a failure the log is read in CloudWatch: set backend.ecs.logGroup (log driver " +
		"awslogs), or use File"
	whyProfile = "Fargate has its own profile: use RuntimeDefault or none"
	whySELinux = "SELinux cannot be set on Fargate: remove it"
	howSELinux = "level s0, the lowest, which is what runs anyway"
	whyUTSName = "the host name in the kernel is AWS's and cannot be set: remove it, or do without " +
		"by the annotation " + Prefix + "unenforced"
	howTokenName   = "a name only: tokens travel in volumes"
	howHostname    = "the variable HOSTNAME and a line of /etc/hosts; the name in the kernel is AWS's"
	howProfile     = "Fargate's profile"
	howUser        = "whom the supervisor starts the container as; without backend.ecs.taskImage: user"
	howGroups      = "groups that the supervisor gives to the container"
	howProbe       = "run by the supervisor inside the task, of every kind"
	howMessageFile = "read by the supervisor when the container has ended, at most 4 KiB; seen some seconds " +
		"later, in the log (backend.ecs.logGroup)"
)

// podRules are for PodSpec. Fields of Fargate's own are named as in ECS API,
// RegisterTaskDefinition, and ECS developer guide, "Task definition differences
// for Fargate".
var podRules = map[string]rule{
	"volumes":        {who: partly, how: "a volume of the task", check: volumesFit},
	"initContainers": honour("one after the other (dependsOn SUCCESS)"),
	"containers": {
		who: partly, check: severalContainers,
		how: "containers of one task under their supervisors; several with burstlet-agent as the essential one, " +
			"whose end is the pod's",
	},
	"ephemeralContainers": refuse("a container cannot be added to a Fargate task that runs: remove it"),
	"restartPolicy":       byEngine("as the kubelet's; a restart is a new task"),
	"terminationGracePeriodSeconds": {
		who: partly, check: graceFits,
		how: "the supervisor's, and stopTimeout of the task, 2 to 120; a deletion's shorter one is told to the " +
			"supervisor if ECS Exec is on, a longer one is not had; of 118 and more the last 3 seconds are the supervisor's",
		why: "Fargate gives a container at most 120 seconds to stop: set 120 or less, or have it clamped by the " +
			"annotation " + Prefix + "clamp-grace",
	},
	"activeDeadlineSeconds": byEngine("the pod fails when it has passed"),
	"dnsPolicy": {
		who: partly, check: dnsFits,
		how: "ClusterFirst: the cluster's DNS with backend.ecs.clusterDNS routed, else the VPC's resolver; None " +
			"with dnsConfig",
		why: whySupervisor,
	},
	"nodeSelector": {
		who: partly, check: nothing,
		how: "used before the pod reaches the node; kubernetes.io/arch chooses x86 or ARM",
	},
	"serviceAccountName":           byEngine(howTokenName),
	"serviceAccount":               byEngine(howTokenName),
	"automountServiceAccountToken": byEngine("without false the API server adds a volume with a token"),
	"nodeName":                     atScheduling(),
	"hostNetwork":                  refuse("a Fargate task has no host to share a network with: remove it"),
	"hostPID":                      refuse("a Fargate task has no host to share processes with: remove it"),
	"hostIPC":                      refuse("a Fargate task has no host to share memory with: remove it"),
	"shareProcessNamespace":        honour("pidMode task"),
	"securityContext":              {who: partly, how: "see the fields", check: podSecurity},
	"imagePullSecrets": {
		who: partly, check: needsExecutionRole,
		how: "repositoryCredentials: the first login for the image's registry; ECR by the execution role",
	},
	"hostname":          honour(howHostname),
	"subdomain":         byEngine("the pod's name in the cluster's DNS and in /etc/hosts"),
	"affinity":          atScheduling(),
	"schedulerName":     atScheduling(),
	"tolerations":       atScheduling(),
	"hostAliases":       supervised("lines of /etc/hosts"),
	"priorityClassName": atScheduling(),
	"priority":          atScheduling(),
	"dnsConfig":         supervised("/etc/resolv.conf"),
	"readinessGates":    byEngine("Ready waits for the conditions"),
	"runtimeClassName":  refuse("Fargate has one runtime: remove it"),
	"enableServiceLinks": byEngine("unless false, variables for the Services of the namespace, in " +
		"the task definition"),
	"preemptionPolicy":          atScheduling(),
	"overhead":                  honour("added to the task's size"),
	"topologySpreadConstraints": atScheduling(),
	"setHostnameAsFQDN": {
		who: partly, check: unlessGivenUp("setHostnameAsFQDN"),
		how: "does without (annotation)",
		why: whyUTSName,
	},
	"os": {
		who: partly, check: osIsLinux,
		how: "what runs anyway",
		why: "tasks run Linux: schedule the pod elsewhere",
	},
	"hostUsers": {
		who: partly, check: notFalse,
		how: "what is so anyway",
		why: "user namespaces are not possible on Fargate: remove it",
	},
	"schedulingGates":  atScheduling(),
	"resourceClaims":   refuse("Fargate has no devices to claim: remove them"),
	"resources":        {who: partly, how: "the task's size", check: podResourcesFit},
	"hostnameOverride": refuse("the host name of a Fargate task cannot be set: remove it"),
	"schedulingGroup":  atScheduling(),
}

// podSecurityRules are for PodSecurityContext.
var podSecurityRules = map[string]rule{
	"seLinuxOptions": {who: partly, how: howSELinux, check: labelIsDefault, why: whySELinux},
	"windowsOptions": refuse("tasks run Linux: remove it"),
	"runAsUser":      honour("for containers that name none"),
	"runAsGroup":     honour("for containers that name none"), // see userIsSet
	"runAsNonRoot":   honour("checked at the launch as the kubelet does: the image's USER is looked up"),
	"supplementalGroups": {
		who: partly, check: unlessSupervised("supplementalGroups"),
		how: howGroups,
		why: orWithout,
	},
	"supplementalGroupsPolicy": supervised("Merge: with the groups of the image's /etc/group; Strict: without"),
	"fsGroup": {
		who: partly, check: unlessSupervised("fsGroup"),
		how: "a group of the container; emptyDirs, files and volumes made for the pod are the group's",
		why: orWithout,
	},
	"sysctls": {
		who: partly, check: sysctlsFit,
		how: "systemControls",
		why: "of sysctls net.*, kernel.msg*, kernel.sem, kernel.shm* and fs.mqueue.* can be set on Fargate: " +
			"remove the others",
	},
	"fsGroupChangePolicy": {
		who: partly, check: unlessSupervised("fsGroup"),
		how: "volumes whose group is changed are new and empty: there is nothing to skip",
		why: orWithout,
	},
	"seccompProfile":      {who: partly, how: howProfile, check: profileIsDefault, why: whyProfile},
	"appArmorProfile":     {who: partly, how: howProfile, check: profileIsDefault, why: whyProfile},
	"seLinuxChangePolicy": refuse(whySELinux),
}

// containerRules are for Container, app and init.
var containerRules = map[string]rule{
	"name": {
		who: partly, check: nameIsFree,
		how: "the container's name in the task",
		why: "names that begin with " + identity.OwnPrefix + " are burstlet's own: use another",
	},
	"image": {
		who: partly, check: imageFits,
		how: "pulled by Fargate, with the execution role",
		why: "ECS takes 255 characters: use a shorter name",
	},
	"command": honour("what the supervisor runs, with $(VAR) expanded; without it the image's " +
		"ENTRYPOINT, looked up in its registry"),
	"args":       honour("as command; without both the image's CMD, looked up in its registry"),
	"workingDir": honour("workingDirectory"),
	"ports":      {who: partly, how: "for information: the security groups say which can be reached", check: portsFit},
	"envFrom":    {who: partly, how: "as variables of env", check: envSources},
	"env": {
		who: partly, check: envValues,
		how: "environment of the definition; what differs between pods in the overrides, what is secret in " +
			"Secrets Manager, addresses put in by the supervisor",
	},
	"resources": {
		who: partly, check: resourcesFit,
		how: "the task's size, and the container's memory and cpu",
	},
	"resizePolicy": byEngine("without effect: a resize in place is answered Infeasible"),
	"restartPolicy": {
		who: partly, check: oneOf("Always"),
		how: "a sidecar: not essential, restarted by ECS once it ran for 60 s, later ones depend on its start",
		why: "on Fargate whole pods are restarted, not single containers: use spec.restartPolicy",
	},
	"restartPolicyRules": refuse("on Fargate whole pods are restarted, not single containers: use " +
		"spec.restartPolicy"),
	"volumeMounts": {
		who: partly, check: mountsFit,
		how: "mountPoints; of a part of a volume, a link to it in the whole one",
	},
	"volumeDevices": refuse("Fargate has no block devices: remove them"),
	"livenessProbe": supervised(howProbe + "; a failure ends the container, and the restart policy decides"),
	"readinessProbe": supervised(howProbe + "; ECS passes the verdict on as the container's " +
		"healthCheck, and with an event queue burstlet-agent reports it within 2 s"),
	"startupProbe": supervised(howProbe + "; ECS passes the verdict on as the container's " +
		"healthCheck, and with an event queue burstlet-agent reports it within 2 s"),
	"lifecycle": {
		who: partly, check: hooksFit,
		how: "hooks run by the supervisor inside the task, stopSignal sent by it",
		why: whySupervisor,
	},
	"terminationMessagePath": {who: partly, how: howMessageFile, check: messagePathFits, why: whySupervisor},
	"terminationMessagePolicy": {
		who: partly, check: messageFits,
		how: "File, or after a failure the log's last 80 lines, at most 2 KiB, some seconds after the end",
		why: whyNoLog,
	},
	"imagePullPolicy": {
		who: partly, check: oneOf("Always", "IfNotPresent"),
		how: "pulled for every task",
		why: "Fargate pulls the image for every task: use Always",
	},
	"securityContext": {who: partly, how: "see the fields", check: containerSecurity},
	"stdin":           honour("interactive"),
	"stdinOnce":       byEngine("without effect on Fargate: what attaches is a session beside it"),
	"tty":             honour("pseudoTerminal"),
}

// securityRules are for a container's SecurityContext.
var securityRules = map[string]rule{
	"capabilities": {
		who: partly, check: capabilitiesFit,
		how: "dropped by the supervisor; of those added, Fargate's own and SYS_PTRACE",
		why: "this capability is not to be had on Fargate: remove it",
	},
	"privileged":             refuse("a Fargate task cannot be privileged: remove it"),
	"seLinuxOptions":         {who: partly, how: howSELinux, check: labelIsDefault, why: whySELinux},
	"windowsOptions":         refuse("tasks run Linux: remove it"),
	"runAsUser":              honour(howUser),
	"runAsGroup":             honour(howUser), // see userIsSet
	"runAsNonRoot":           honour("checked at the launch as the kubelet does: the image's USER is looked up"),
	"readOnlyRootFilesystem": honour("readonlyRootFilesystem"),
	"allowPrivilegeEscalation": {
		who: partly, check: escalation,
		how: "no_new_privs, set by the supervisor",
		why: orWithout,
	},
	"procMount": {
		who: partly, check: oneOf("Default"),
		how: "masked",
		why: "proc is masked on Fargate: use Default",
	},
	"seccompProfile":  {who: partly, how: howProfile, check: profileIsDefault, why: whyProfile},
	"appArmorProfile": {who: partly, how: howProfile, check: profileIsDefault, why: whyProfile},
}
