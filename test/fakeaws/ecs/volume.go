package ecs

import (
	"regexp"
	"slices"
	"strings"
)

var (
	fileSystemPattern  = regexp.MustCompile(`^fs-[0-9a-f]{8,40}$`)
	accessPointPattern = regexp.MustCompile(`^fsap-[0-9a-f]{8,40}$`)
)

// checkVolumes is ECS API, Volume: each has a name of its own and at most one
// configuration; ECS developer guide, "Storage options for Amazon ECS tasks": no
// docker and FSx volumes on Fargate.
func (in *registerInput) checkVolumes() (map[string]bool, *apiError) {
	names := map[string]bool{}
	open := 0
	for _, v := range in.Volumes {
		name := value(v.Name)
		if !namePattern.MatchString(name) {
			return nil, clientError("Volume name contains invalid characters or is empty: %q.", name)
		}
		if names[name] {
			return nil, clientError("Volume name %q is there twice.", name)
		}
		names[name] = true
		if e := v.check(in); e != nil {
			return nil, e
		}
		// ECS API, Volume: configuredAtLaunch: "Each task definition revision may only
		// have one volume configured at launch".
		if value(v.ConfiguredAtLaunch) {
			open++
		}
		if open > 1 {
			return nil, clientError("Only one volume can be configured at launch.")
		}
	}
	return names, nil
}

func (v *volume) check(in *registerInput) *apiError {
	given := 0
	for _, is := range []bool{
		v.Host != nil, v.EFS != nil, v.S3Files != nil, value(v.ConfiguredAtLaunch), v.Docker != nil, v.FSx != nil,
	} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return clientError("Only one volume configuration can be specified for volume %q.", *v.Name)
	case v.Docker != nil:
		return clientError("DockerVolumeConfiguration is not supported for Fargate.")
	case v.FSx != nil:
		return clientError("FSxWindowsFileServerVolumeConfiguration is not supported for Fargate.")
	case v.S3Files != nil:
		return v.S3Files.check(in.TaskRoleArn != nil)
	case v.Host != nil && v.Host.SourcePath != nil:
		// ECS API, HostVolumeProperties: "If you are using the Fargate launch type,
		// the sourcePath parameter is not supported".
		return clientError("host.sourcePath should not be set for volumes in Fargate.")
	case v.EFS != nil:
		return v.EFS.check(in.TaskRoleArn != nil)
	}
	return nil
}

var (
	s3FileSystemPattern = regexp.MustCompile(
		`^arn:aws[-a-z]*:s3files:[a-z0-9-]+:[0-9]{12}:file-system/fs-[0-9a-f]{17,40}$`,
	)
	s3AccessPointPattern = regexp.MustCompile(
		`^arn:aws[-a-z]*:s3files:[a-z0-9-]+:[0-9]{12}:file-system/fs-[0-9a-f]{17,40}/access-point/fsap-[0-9a-f]{17,40}$`,
	)
)

// check is ECS API, S3FilesVolumeConfiguration ("Your task definition must include a
// Task IAM Role"), and S3 API, S3Files_ListAccessPointsDescription, for the ARNs.
func (s *s3FilesVolume) check(hasTaskRole bool) *apiError {
	root := value(s.RootDirectory)
	switch {
	case !s3FileSystemPattern.MatchString(value(s.FileSystemARN)):
		return clientError("Invalid S3 Files fileSystemArn %q.", value(s.FileSystemARN))
	case !hasTaskRole:
		return clientError("A task role is required when an S3 Files volume is specified.")
	case root != "" && !strings.HasPrefix(root, "/"):
		return clientError("rootDirectory must be an absolute path.")
	case s.TransitEncryptionPort != nil && (*s.TransitEncryptionPort < 0 || *s.TransitEncryptionPort > 65535):
		return clientError("Invalid transitEncryptionPort.")
	case s.AccessPointARN == nil:
		return nil
	case !s3AccessPointPattern.MatchString(*s.AccessPointARN):
		return clientError("Invalid S3 Files accessPointArn %q.", *s.AccessPointARN)
	case root != "" && root != "/":
		// "the root directory parameter must either be omitted or set to /".
		return clientError(
			"S3FilesVolumeConfiguration.rootDirectory must be omitted or set to '/' when an access point is specified.",
		)
	}
	return nil
}

// check is ECS API, EFSVolumeConfiguration.
func (e *efsVolume) check(hasTaskRole bool) *apiError {
	if !fileSystemPattern.MatchString(value(e.FileSystemID)) {
		return clientError("Invalid EFS fileSystemId %q.", value(e.FileSystemID))
	}
	enabled := value(e.TransitEncryption)
	if !slices.Contains([]string{"", "ENABLED", "DISABLED"}, enabled) {
		return clientError("Invalid transitEncryption %q.", enabled)
	}
	if p := e.TransitEncryptionPort; p != nil && (*p < 0 || *p > 65535 || enabled != "ENABLED") {
		return clientError("Invalid transitEncryptionPort: it needs transitEncryption and must be a port.")
	}
	if r := value(e.RootDirectory); r != "" && !strings.HasPrefix(r, "/") {
		return clientError("rootDirectory must be an absolute path.")
	}
	return e.checkAuthorization(hasTaskRole)
}

// checkAuthorization is ECS API, EFSAuthorizationConfig.
func (e *efsVolume) checkAuthorization(hasTaskRole bool) *apiError {
	a := e.Authorization
	if a == nil {
		return nil
	}
	encrypted := value(e.TransitEncryption) == "ENABLED"
	if id := value(a.AccessPointID); id != "" {
		root := value(e.RootDirectory)
		switch {
		case !accessPointPattern.MatchString(id):
			return clientError("Invalid EFS accessPointId %q.", id)
		case root != "" && root != "/":
			// "If an EFS access point is specified in the authorizationConfig, the root
			// directory parameter must either be omitted or set to /".
			return clientError(
				"EFSVolumeConfiguration.rootDirectory must be omitted or set to '/' when an access point is specified.",
			)
		case !encrypted:
			return clientError("EFSVolumeConfiguration.transitEncryption must be ENABLED when an access point is specified.")
		}
	}
	switch iam := value(a.IAM); {
	case iam != "" && iam != "ENABLED" && iam != "DISABLED":
		return clientError("Invalid authorizationConfig.iam %q.", iam)
	case iam == "ENABLED" && !encrypted:
		return clientError("EFSVolumeConfiguration.transitEncryption must be ENABLED when IAM authorization is.")
	case iam == "ENABLED" && !hasTaskRole:
		return clientError("A task role is required when EFS IAM authorization is enabled.")
	}
	return nil
}

// checkMounts is ECS API, MountPoint and VolumeFrom.
func (c *containerDefinition) checkMounts(volumes map[string]bool) *apiError {
	paths := map[string]bool{}
	for _, m := range c.MountPoints {
		if !volumes[value(m.SourceVolume)] {
			return clientError("Unknown volume '%s'.", value(m.SourceVolume))
		}
		p := value(m.ContainerPath)
		if !strings.HasPrefix(p, "/") {
			return clientError("Invalid containerPath %q: it must be an absolute path.", p)
		}
		if paths[p] {
			return clientError("containerPath %q is mounted twice.", p)
		}
		paths[p] = true
	}
	return nil
}

// checkVolumesFrom is ECS API, VolumeFrom: the source is another container.
func checkVolumesFrom(cs []containerDefinition, index map[string]int) *apiError {
	for i, c := range cs {
		for _, v := range c.VolumesFrom {
			if j, ok := index[value(v.SourceContainer)]; !ok || j == i {
				return clientError("Unknown container in volumesFrom: %q.", value(v.SourceContainer))
			}
		}
	}
	return nil
}
