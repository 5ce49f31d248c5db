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
	Volumes                 []volume              `json:"volumes,omitempty"`
	EnableFaultInjection    *bool                 `json:"enableFaultInjection,omitempty"`
	Tags                    []tag                 `json:"tags,omitempty"`
}

type runtimePlatform struct {
	CPUArchitecture       *string `json:"cpuArchitecture,omitempty"`
	OperatingSystemFamily *string `json:"operatingSystemFamily,omitempty"`
}

type ephemeralStorage struct {
	SizeInGiB int32 `json:"sizeInGiB"`
}

type volume struct {
	Name               *string         `json:"name,omitempty"`
	ConfiguredAtLaunch *bool           `json:"configuredAtLaunch,omitempty"`
	Host               *hostVolume     `json:"host,omitempty"`
	EFS                *efsVolume      `json:"efsVolumeConfiguration,omitempty"`
	S3Files            *s3FilesVolume  `json:"s3filesVolumeConfiguration,omitempty"`
	Docker             json.RawMessage `json:"dockerVolumeConfiguration,omitempty"`
	FSx                json.RawMessage `json:"fsxWindowsFileServerVolumeConfiguration,omitempty"`
}

type hostVolume struct {
	SourcePath *string `json:"sourcePath,omitempty"`
}

type efsVolume struct {
	FileSystemID          *string           `json:"fileSystemId,omitempty"`
	RootDirectory         *string           `json:"rootDirectory,omitempty"`
	TransitEncryption     *string           `json:"transitEncryption,omitempty"`
	TransitEncryptionPort *int32            `json:"transitEncryptionPort,omitempty"`
	Authorization         *efsAuthorization `json:"authorizationConfig,omitempty"`
}

type s3FilesVolume struct {
	FileSystemARN         *string `json:"fileSystemArn,omitempty"`
	AccessPointARN        *string `json:"accessPointArn,omitempty"`
	RootDirectory         *string `json:"rootDirectory,omitempty"`
	TransitEncryptionPort *int32  `json:"transitEncryptionPort,omitempty"`
}

type efsAuthorization struct {
	AccessPointID *string `json:"accessPointId,omitempty"`
	IAM           *string `json:"iam,omitempty"`
}

type containerDefinition struct {
	Name                   *string                `json:"name,omitempty"`
	Image                  *string                `json:"image,omitempty"`
	CPU                    *int32                 `json:"cpu,omitempty"`
	Memory                 *int32                 `json:"memory,omitempty"`
	MemoryReservation      *int32                 `json:"memoryReservation,omitempty"`
	Essential              *bool                  `json:"essential,omitempty"`
	EntryPoint             []string               `json:"entryPoint,omitempty"`
	Command                []string               `json:"command,omitempty"`
	Environment            []keyValue             `json:"environment,omitempty"`
	EnvironmentFiles       []environmentFile      `json:"environmentFiles,omitempty"`
	Secrets                []secretRef            `json:"secrets,omitempty"`
	RepositoryCredentials  *repositoryCredentials `json:"repositoryCredentials,omitempty"`
	PortMappings           []portMapping          `json:"portMappings,omitempty"`
	HealthCheck            *healthCheck           `json:"healthCheck,omitempty"`
	DependsOn              []dependency           `json:"dependsOn,omitempty"`
	StartTimeout           *int32                 `json:"startTimeout,omitempty"`
	StopTimeout            *int32                 `json:"stopTimeout,omitempty"`
	RestartPolicy          *restartPolicy         `json:"restartPolicy,omitempty"`
	User                   *string                `json:"user,omitempty"`
	WorkingDirectory       *string                `json:"workingDirectory,omitempty"`
	ReadonlyRootFilesystem *bool                  `json:"readonlyRootFilesystem,omitempty"`
	Interactive            *bool                  `json:"interactive,omitempty"`
	PseudoTerminal         *bool                  `json:"pseudoTerminal,omitempty"`
	LinuxParameters        *linuxParameters       `json:"linuxParameters,omitempty"`
	Ulimits                []ulimit               `json:"ulimits,omitempty"`
	SystemControls         []systemControl        `json:"systemControls,omitempty"`
	MountPoints            []mountPoint           `json:"mountPoints,omitempty"`
	VolumesFrom            []volumeFrom           `json:"volumesFrom,omitempty"`
	LogConfiguration       *logConfiguration      `json:"logConfiguration,omitempty"`
	Firelens               *firelens              `json:"firelensConfiguration,omitempty"`
	DockerLabels           map[string]string      `json:"dockerLabels,omitempty"`
	VersionConsistency     *string                `json:"versionConsistency,omitempty"`

	// Known to ECS, not valid on Fargate: see checkUnsupported.
	Privileged            *bool             `json:"privileged,omitempty"`
	Links                 []string          `json:"links,omitempty"`
	Hostname              *string           `json:"hostname,omitempty"`
	ExtraHosts            []json.RawMessage `json:"extraHosts,omitempty"`
	DNSServers            []string          `json:"dnsServers,omitempty"`
	DNSSearchDomains      []string          `json:"dnsSearchDomains,omitempty"`
	DockerSecurityOptions []string          `json:"dockerSecurityOptions,omitempty"`
	DisableNetworking     *bool             `json:"disableNetworking,omitempty"`
	ResourceRequirements  []json.RawMessage `json:"resourceRequirements,omitempty"`
}

type environmentFile struct {
	Type  *string `json:"type,omitempty"`
	Value *string `json:"value,omitempty"`
}

type secretRef struct {
	Name      *string `json:"name,omitempty"`
	ValueFrom *string `json:"valueFrom,omitempty"`
}

type repositoryCredentials struct {
	CredentialsParameter *string `json:"credentialsParameter,omitempty"`
}

type portMapping struct {
	ContainerPort *int32  `json:"containerPort,omitempty"`
	HostPort      *int32  `json:"hostPort,omitempty"`
	Protocol      *string `json:"protocol,omitempty"`
	Name          *string `json:"name,omitempty"`
	AppProtocol   *string `json:"appProtocol,omitempty"`
}

type healthCheck struct {
	Command     []string `json:"command,omitempty"`
	Interval    *int32   `json:"interval,omitempty"`
	Timeout     *int32   `json:"timeout,omitempty"`
	Retries     *int32   `json:"retries,omitempty"`
	StartPeriod *int32   `json:"startPeriod,omitempty"`
}

type restartPolicy struct {
	Enabled              *bool   `json:"enabled,omitempty"`
	IgnoredExitCodes     []int32 `json:"ignoredExitCodes,omitempty"`
	RestartAttemptPeriod *int32  `json:"restartAttemptPeriod,omitempty"`
}

type dependency struct {
	ContainerName *string `json:"containerName,omitempty"`
	Condition     *string `json:"condition,omitempty"`
}

type ulimit struct {
	Name      *string `json:"name,omitempty"`
	SoftLimit *int32  `json:"softLimit,omitempty"`
	HardLimit *int32  `json:"hardLimit,omitempty"`
}

type systemControl struct {
	Namespace *string `json:"namespace,omitempty"`
	Value     *string `json:"value,omitempty"`
}

type mountPoint struct {
	SourceVolume  *string `json:"sourceVolume,omitempty"`
	ContainerPath *string `json:"containerPath,omitempty"`
	ReadOnly      *bool   `json:"readOnly,omitempty"`
}

type volumeFrom struct {
	SourceContainer *string `json:"sourceContainer,omitempty"`
	ReadOnly        *bool   `json:"readOnly,omitempty"`
}

type linuxParameters struct {
	Capabilities       *capabilities     `json:"capabilities,omitempty"`
	InitProcessEnabled *bool             `json:"initProcessEnabled,omitempty"`
	Tmpfs              []tmpfs           `json:"tmpfs,omitempty"`
	Devices            []json.RawMessage `json:"devices,omitempty"`
	SharedMemorySize   *int32            `json:"sharedMemorySize,omitempty"`
	MaxSwap            *int32            `json:"maxSwap,omitempty"`
	Swappiness         *int32            `json:"swappiness,omitempty"`
}

type tmpfs struct {
	ContainerPath *string  `json:"containerPath,omitempty"`
	Size          int32    `json:"size"`
	MountOptions  []string `json:"mountOptions,omitempty"`
}

type capabilities struct {
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

type logConfiguration struct {
	LogDriver     *string           `json:"logDriver,omitempty"`
	Options       map[string]string `json:"options,omitempty"`
	SecretOptions []secretRef       `json:"secretOptions,omitempty"`
}

type firelens struct {
	Type    *string           `json:"type,omitempty"`
	Options map[string]string `json:"options,omitempty"`
}

type runInput struct {
	TaskDefinition       *string               `json:"taskDefinition"`
	Cluster              *string               `json:"cluster"`
	ClientToken          *string               `json:"clientToken"`
	Count                *int32                `json:"count"`
	Group                *string               `json:"group"`
	LaunchType           *string               `json:"launchType"`
	CapacityProviders    []providerItem        `json:"capacityProviderStrategy"`
	PlatformVersion      *string               `json:"platformVersion"`
	PropagateTags        *string               `json:"propagateTags"`
	ReferenceID          *string               `json:"referenceId"`
	StartedBy            *string               `json:"startedBy"`
	EnableManagedTags    bool                  `json:"enableECSManagedTags"`
	EnableExecute        bool                  `json:"enableExecuteCommand"`
	NetworkConfiguration *networkConfiguration `json:"networkConfiguration"`
	Overrides            json.RawMessage       `json:"overrides"`
	Tags                 []tag                 `json:"tags"`
	VolumeConfigurations []volumeConfiguration `json:"volumeConfigurations"`
}

type providerItem struct {
	CapacityProvider *string `json:"capacityProvider"`
	Weight           int32   `json:"weight"`
	Base             int32   `json:"base"`
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
	Name              *string           `json:"name,omitempty"`
	Command           []string          `json:"command,omitempty"`
	Environment       []keyValue        `json:"environment,omitempty"`
	EnvironmentFiles  []environmentFile `json:"environmentFiles,omitempty"`
	CPU               *int32            `json:"cpu,omitempty"`
	Memory            *int32            `json:"memory,omitempty"`
	MemoryReservation *int32            `json:"memoryReservation,omitempty"`
}

// value is *p, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// or is *p, or a standard value.
func or[T any](p *T, standard T) T {
	if p == nil {
		return standard
	}
	return *p
}
