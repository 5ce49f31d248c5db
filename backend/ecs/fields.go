package ecs

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
	// refused: not possible here, or not possible yet.
	refused
	// partly: some values are honoured; check says which are not.
	partly
)

// rule is what becomes of one field.
type rule struct {
	who who
	// why tells the user what to do, for refused fields and values.
	why string
	// check looks at the value, for partly. It is only called for a field that is
	// set.
	check func(path string, value any, why string) []refusal
}

func refuse(why string) rule { return rule{who: refused, why: why} }

const noVolumes = "volumes are not possible on Fargate yet: remove them, and for pods that need no API token set automountServiceAccountToken to false"

// podRules are for PodSpec. Fields of Fargate's own are named as in ECS API,
// RegisterTaskDefinition, and ECS developer guide, "Task definition differences
// for Fargate".
var podRules = map[string]rule{
	"volumes":                       refuse(noVolumes),
	"initContainers":                {who: honoured},
	"containers":                    {who: partly, check: oneContainer, why: "only one app container is possible on Fargate yet: use a pod for each"},
	"ephemeralContainers":           refuse("a container cannot be added to a Fargate task that runs: remove it"),
	"restartPolicy":                 {who: engine},
	"terminationGracePeriodSeconds": {who: partly, check: graceFits, why: "Fargate gives a container at most 120 seconds to stop: set 120 or less"},
	"activeDeadlineSeconds":         {who: engine},
	"dnsPolicy":                     {who: partly, check: oneOf("ClusterFirst", "ClusterFirstWithHostNet", "Default"), why: "the resolver of a Fargate task is the VPC's: set Default"},
	"nodeSelector":                  {who: scheduler},
	"serviceAccountName":            {who: engine},
	"serviceAccount":                {who: engine},
	"automountServiceAccountToken":  {who: engine},
	"nodeName":                      {who: scheduler},
	"hostNetwork":                   refuse("a Fargate task has no host to share a network with: remove it"),
	"hostPID":                       refuse("a Fargate task has no host to share processes with: remove it"),
	"hostIPC":                       refuse("a Fargate task has no host to share memory with: remove it"),
	"shareProcessNamespace":         {who: honoured},
	"securityContext":               {who: partly, check: podSecurity},
	"imagePullSecrets":              refuse("pull secrets are not possible on Fargate yet: use a public image or one in ECR that the execution role may pull"),
	"hostname":                      refuse("the host name of a Fargate task cannot be set: remove it"),
	"subdomain":                     refuse("the host name of a Fargate task cannot be set: remove it"),
	"affinity":                      {who: scheduler},
	"schedulerName":                 {who: scheduler},
	"tolerations":                   {who: scheduler},
	"hostAliases":                   refuse("the hosts file of a Fargate task cannot be written yet: use DNS"),
	"priorityClassName":             {who: scheduler},
	"priority":                      {who: scheduler},
	"dnsConfig":                     refuse("the resolver of a Fargate task is the VPC's and cannot be configured yet: remove it"),
	"readinessGates":                {who: engine},
	"runtimeClassName":              refuse("Fargate has one runtime: remove it"),
	"enableServiceLinks":            {who: engine},
	"preemptionPolicy":              {who: scheduler},
	"overhead":                      {who: honoured},
	"topologySpreadConstraints":     {who: scheduler},
	"setHostnameAsFQDN":             refuse("the host name of a Fargate task cannot be set: remove it"),
	"os":                            {who: partly, check: osIsLinux, why: "tasks run Linux: schedule the pod elsewhere"},
	"hostUsers":                     {who: partly, check: notFalse, why: "user namespaces are not possible on Fargate: remove it"},
	"schedulingGates":               {who: scheduler},
	"resourceClaims":                refuse("Fargate has no devices to claim: remove them"),
	"resources":                     refuse("resources of the whole pod are not possible here yet: set them on the containers"),
	"hostnameOverride":              refuse("the host name of a Fargate task cannot be set: remove it"),
	"schedulingGroup":               {who: scheduler},
}

// podSecurityRules are for PodSecurityContext.
var podSecurityRules = map[string]rule{
	"seLinuxOptions":           refuse("SELinux cannot be set on Fargate: remove it"),
	"windowsOptions":           refuse("tasks run Linux: remove it"),
	"runAsUser":                {who: honoured},
	"runAsGroup":               {who: honoured}, // see userIsSet
	"runAsNonRoot":             {who: honoured}, // see userIsSet
	"supplementalGroups":       refuse("groups beyond the first are not possible on Fargate yet: use runAsGroup"),
	"supplementalGroupsPolicy": refuse("groups beyond the first are not possible on Fargate yet: remove it"),
	"fsGroup":                  refuse("a group for volumes is not possible on Fargate yet: remove it"),
	"sysctls":                  refuse("sysctls are not possible on Fargate yet: remove them"),
	"fsGroupChangePolicy":      refuse("a group for volumes is not possible on Fargate yet: remove it"),
	"seccompProfile":           {who: partly, check: profileIsDefault, why: "Fargate has its own profile: use RuntimeDefault or none"},
	"appArmorProfile":          {who: partly, check: profileIsDefault, why: "Fargate has its own profile: use RuntimeDefault or none"},
	"seLinuxChangePolicy":      refuse("SELinux cannot be set on Fargate: remove it"),
}

// containerRules are for Container, app and init.
var containerRules = map[string]rule{
	"name":                     {who: honoured},
	"image":                    {who: partly, check: imageFits, why: "ECS takes 255 characters: use a shorter name"},
	"command":                  {who: honoured},
	"args":                     {who: honoured},
	"workingDir":               {who: honoured},
	"ports":                    {who: partly, check: portsFit},
	"envFrom":                  {who: partly, check: envSources},
	"env":                      {who: partly, check: envValues},
	"resources":                {who: partly, check: resourcesFit},
	"resizePolicy":             {who: engine},
	"restartPolicy":            refuse("restart policies of single containers, sidecars among them, are not possible on Fargate yet: remove it"),
	"restartPolicyRules":       refuse("restart policies of single containers are not possible on Fargate yet: remove them"),
	"volumeMounts":             refuse(noVolumes),
	"volumeDevices":            refuse("Fargate has no block devices: remove them"),
	"livenessProbe":            {who: engine},
	"readinessProbe":           {who: engine},
	"startupProbe":             {who: engine},
	"lifecycle":                {who: partly, check: noStopSignal, why: "the signal is the image's own on Fargate: set it there"},
	"terminationMessagePath":   {who: partly, check: oneOf("/dev/termination-log"), why: "termination messages cannot be read from Fargate yet: remove it"},
	"terminationMessagePolicy": {who: partly, check: oneOf("File"), why: "termination messages cannot be read from Fargate yet: remove it"},
	"imagePullPolicy":          {who: partly, check: oneOf("Always", "IfNotPresent"), why: "Fargate pulls the image for every task: use Always"},
	"securityContext":          {who: partly, check: containerSecurity},
	"stdin":                    {who: honoured},
	"stdinOnce":                {who: honoured}, // nothing can attach, so nothing detaches
	"tty":                      {who: honoured},
}

// securityRules are for a container's SecurityContext.
var securityRules = map[string]rule{
	"capabilities":             {who: partly, check: capabilitiesFit, why: "SYS_PTRACE is the only capability that can be added on Fargate: remove the others"},
	"privileged":               refuse("a Fargate task cannot be privileged: remove it"),
	"seLinuxOptions":           refuse("SELinux cannot be set on Fargate: remove it"),
	"windowsOptions":           refuse("tasks run Linux: remove it"),
	"runAsUser":                {who: honoured},
	"runAsGroup":               {who: honoured}, // see userIsSet
	"runAsNonRoot":             {who: honoured}, // see userIsSet
	"readOnlyRootFilesystem":   {who: honoured},
	"allowPrivilegeEscalation": {who: partly, check: notFalse, why: "Fargate cannot forbid it: remove it"},
	"procMount":                {who: partly, check: oneOf("Default"), why: "proc is masked on Fargate: use Default"},
	"seccompProfile":           {who: partly, check: profileIsDefault, why: "Fargate has its own profile: use RuntimeDefault or none"},
	"appArmorProfile":          {who: partly, check: profileIsDefault, why: "Fargate has its own profile: use RuntimeDefault or none"},
}
