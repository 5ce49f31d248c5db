package ecs

import "encoding/json"

// The members of requests, under AWS's names (ECS API reference). A member that
// is not here is refused as unknown: nothing a client asks for is dropped.

type keyValue struct {
	Name  *string `json:"name,omitempty"`
	Value *string `json:"value,omitempty"`
}

type tag struct {
	Key   *string `json:"key,omitempty"`
	Value *string `json:"value,omitempty"`
}

type registerInput struct {
	Family                  *string               `json:"family,omitempty"`
	ContainerDefinitions    []containerDefinition `json:"containerDefinitions,omitempty"`
	CPU                     *string               `json:"cpu,omitempty"`
	Memory                  *string               `json:"memory,omitempty"`
	NetworkMode             *string               `json:"networkMode,omitempty"`
	RequiresCompatibilities []string              `json:"requiresCompatibilities,omitempty"`
	ExecutionRoleArn        *string               `json:"executionRoleArn,omitempty"`
	TaskRoleArn             *string               `json:"taskRoleArn,omitempty"`
	RuntimePlatform         *runtimePlatform      `json:"runtimePlatform,omitempty"`
	EphemeralStorage        *ephemeralStorage     `json:"ephemeralStorage,omitempty"`
	PidMode                 *string               `json:"pidMode,omitempty"`
	IpcMode                 *string               `json:"ipcMode,omitempty"`
	PlacementConstraints    []json.RawMessage     `json:"placementConstraints,omitempty"`
	Tags                    []tag                 `json:"tags,omitempty"`
}

type runtimePlatform struct {
	CPUArchitecture       *string `json:"cpuArchitecture,omitempty"`
	OperatingSystemFamily *string `json:"operatingSystemFamily,omitempty"`
}

type ephemeralStorage struct {
	SizeInGiB int32 `json:"sizeInGiB"`
}

type containerDefinition struct {
	Name                   *string           `json:"name,omitempty"`
	Image                  *string           `json:"image,omitempty"`
	CPU                    *int32            `json:"cpu,omitempty"`
	Memory                 *int32            `json:"memory,omitempty"`
	MemoryReservation      *int32            `json:"memoryReservation,omitempty"`
	Essential              *bool             `json:"essential,omitempty"`
	EntryPoint             []string          `json:"entryPoint,omitempty"`
	Command                []string          `json:"command,omitempty"`
	Environment            []keyValue        `json:"environment,omitempty"`
	PortMappings           []portMapping     `json:"portMappings,omitempty"`
	DependsOn              []dependency      `json:"dependsOn,omitempty"`
	StartTimeout           *int32            `json:"startTimeout,omitempty"`
	StopTimeout            *int32            `json:"stopTimeout,omitempty"`
	User                   *string           `json:"user,omitempty"`
	WorkingDirectory       *string           `json:"workingDirectory,omitempty"`
	ReadonlyRootFilesystem *bool             `json:"readonlyRootFilesystem,omitempty"`
	Interactive            *bool             `json:"interactive,omitempty"`
	PseudoTerminal         *bool             `json:"pseudoTerminal,omitempty"`
	LinuxParameters        *linuxParameters  `json:"linuxParameters,omitempty"`
	LogConfiguration       *logConfiguration `json:"logConfiguration,omitempty"`
	DockerLabels           map[string]string `json:"dockerLabels,omitempty"`

	// Known to ECS, not valid on Fargate: see checkUnsupported.
	Privileged            *bool             `json:"privileged,omitempty"`
	Links                 []string          `json:"links,omitempty"`
	Hostname              *string           `json:"hostname,omitempty"`
	ExtraHosts            []json.RawMessage `json:"extraHosts,omitempty"`
	DNSServers            []string          `json:"dnsServers,omitempty"`
	DNSSearchDomains      []string          `json:"dnsSearchDomains,omitempty"`
	DockerSecurityOptions []string          `json:"dockerSecurityOptions,omitempty"`
	DisableNetworking     *bool             `json:"disableNetworking,omitempty"`

	// The protocol has these as empty lists at times.
	MountPoints    []json.RawMessage `json:"mountPoints,omitempty"`
	VolumesFrom    []json.RawMessage `json:"volumesFrom,omitempty"`
	SystemControls []json.RawMessage `json:"systemControls,omitempty"`
}

type portMapping struct {
	ContainerPort *int32  `json:"containerPort,omitempty"`
	HostPort      *int32  `json:"hostPort,omitempty"`
	Protocol      *string `json:"protocol,omitempty"`
	Name          *string `json:"name,omitempty"`
}

type dependency struct {
	ContainerName *string `json:"containerName,omitempty"`
	Condition     *string `json:"condition,omitempty"`
}

type linuxParameters struct {
	Capabilities       *capabilities     `json:"capabilities,omitempty"`
	InitProcessEnabled *bool             `json:"initProcessEnabled,omitempty"`
	Devices            []json.RawMessage `json:"devices,omitempty"`
	SharedMemorySize   *int32            `json:"sharedMemorySize,omitempty"`
	MaxSwap            *int32            `json:"maxSwap,omitempty"`
	Swappiness         *int32            `json:"swappiness,omitempty"`
}

type capabilities struct {
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

type logConfiguration struct {
	LogDriver *string           `json:"logDriver,omitempty"`
	Options   map[string]string `json:"options,omitempty"`
}

type runInput struct {
	TaskDefinition       *string               `json:"taskDefinition"`
	Cluster              *string               `json:"cluster"`
	ClientToken          *string               `json:"clientToken"`
	Count                *int32                `json:"count"`
	Group                *string               `json:"group"`
	LaunchType           *string               `json:"launchType"`
	PlatformVersion      *string               `json:"platformVersion"`
	PropagateTags        *string               `json:"propagateTags"`
	ReferenceID          *string               `json:"referenceId"`
	StartedBy            *string               `json:"startedBy"`
	EnableManagedTags    bool                  `json:"enableECSManagedTags"`
	EnableExecute        bool                  `json:"enableExecuteCommand"`
	NetworkConfiguration *networkConfiguration `json:"networkConfiguration"`
	Overrides            json.RawMessage       `json:"overrides"`
	Tags                 []tag                 `json:"tags"`
}

type networkConfiguration struct {
	Awsvpc *struct {
		Subnets        []string `json:"subnets"`
		SecurityGroups []string `json:"securityGroups"`
		AssignPublicIP *string  `json:"assignPublicIp"`
	} `json:"awsvpcConfiguration"`
}

type overrides struct {
	ContainerOverrides []containerOverride `json:"containerOverrides,omitempty"`
	CPU                *string             `json:"cpu,omitempty"`
	Memory             *string             `json:"memory,omitempty"`
	ExecutionRoleArn   *string             `json:"executionRoleArn,omitempty"`
	TaskRoleArn        *string             `json:"taskRoleArn,omitempty"`
	EphemeralStorage   *ephemeralStorage   `json:"ephemeralStorage,omitempty"`
}

type containerOverride struct {
	Name              *string    `json:"name,omitempty"`
	Command           []string   `json:"command,omitempty"`
	Environment       []keyValue `json:"environment,omitempty"`
	CPU               *int32     `json:"cpu,omitempty"`
	Memory            *int32     `json:"memory,omitempty"`
	MemoryReservation *int32     `json:"memoryReservation,omitempty"`
}

// value is *p, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
