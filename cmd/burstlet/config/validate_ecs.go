package config

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

// validate leaves judging to the backend's own rules. Volumes and prices of which nothing
// is said are theirs for none, in a file they lack what they need.
func (e *ECS) validate(at *field.Path) field.ErrorList {
	settings := e.Settings()
	errs := settings.Errors(at)
	errs = append(errs, ifSet(at.Child("clusterDNS"), e.ClusterDNS, DNSRouted)...)
	errs = append(errs, ifSet(at.Child("stats"), e.Stats, StatsSessions)...)
	if e.EBS != nil && settings.EBS == (ecsconfig.EBS{}) {
		errs = append(errs, settings.EBS.Errors(at.Child("ebs"))...)
	}
	if e.Prices != nil && settings.Rates == (fargate.Rates{}) {
		errs = append(errs, ecsconfig.PriceErrors(settings.Rates, at.Child("prices"))...)
	}
	return errs
}

// Settings returns the section as its backend takes it.
func (e *ECS) Settings() ecsconfig.Config {
	out := ecsconfig.Config{
		Region: e.Region, Cluster: e.Cluster, Subnets: e.Subnets, SecurityGroups: e.SecurityGroups,
		AssignPublicIP: e.AssignPublicIP, ExecutionRoleARN: e.ExecutionRoleARN, TaskRoleARN: e.TaskRoleARN,
		CPUArchitecture: e.CPUArchitecture, LogGroup: e.LogGroup, LogOptions: e.LogOptions, TaskImage: e.TaskImage,
		NoExec:          e.ExecEnabled != nil && !*e.ExecEnabled,
		RegistryMirrors: e.RegistryMirrors, Refresh: e.Refresh.Duration, SessionStats: e.Stats == StatsSessions,
		CapacityTypes: e.CapacityTypes, PlatformVersion: e.PlatformVersion, EphemeralStorageGiB: e.EphemeralStorageGiB,
		PayloadBucket: e.PayloadBucket, PayloadPrefix: e.PayloadPrefix,
		EventQueueURL: e.EventQueueURL, Settle: e.Settle.Duration, UnusedAfter: e.UnusedAfter.Duration, Endpoint: e.Endpoint,
	}
	if v := e.EBS; v != nil {
		out.EBS = ecsconfig.EBS{
			RoleARN: v.RoleARN, VolumeType: v.VolumeType, Encrypted: v.Encrypted, KMSKeyID: v.KMSKeyID,
			FilesystemType: v.FilesystemType,
		}
	}
	if p := e.Prices; p != nil {
		out.Rates = fargate.Rates{
			VCPU: p.VCPU, GB: p.GB, ARMVCPU: p.ARMVCPU, ARMGB: p.ARMGB, StorageGB: p.StorageGB, EBSGB: p.EBSGB,
			SpotFactor: p.SpotFactor,
		}
	}
	return out
}
