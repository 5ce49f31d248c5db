package ecsconfig

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/burstlet/burstlet/backend/ecs/fargate"
)

// TestErrors changes one field of a configuration that is right, and wants its name.
func TestErrors(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/r"
	at := field.NewPath("backend", "ecs")
	right := func() Config {
		return Config{
			Region: "eu-central-1", Cluster: "c", Subnets: []string{"subnet-1"},
			Rates: fargate.PublishedRates("eu-central-1"),
		}
	}
	if errs := right().Errors(at); len(errs) > 0 {
		t.Fatal(errs)
	}
	for want, change := range map[string]func(*Config){
		"region: Invalid":                  func(c *Config) { c.Region = "EU" },
		"cluster: Required":                func(c *Config) { c.Cluster = "" },
		"subnets: Too many: 17: must have": func(c *Config) { c.Subnets = make([]string, 17) },
		"subnets[0]: Invalid":              func(c *Config) { c.Subnets[0] = "sg-1" },
		"securityGroups[0]: Invalid":       func(c *Config) { c.SecurityGroups = []string{"subnet-1"} },
		"executionRoleARN: Invalid":        func(c *Config) { c.ExecutionRoleARN = "r" },
		"executionRoleARN: Required":       func(c *Config) { c.LogGroup = "g" },
		"taskRoleARN: Invalid":             func(c *Config) { c.TaskRoleARN = "r" },
		"taskImage: Required":              func(c *Config) { c.SessionStats = true },
		"exec: Invalid":                    func(c *Config) { c.TaskImage, c.SessionStats, c.NoExec = "i", true, true },
		"taskImage: Too long":              func(c *Config) { c.TaskImage = strings.Repeat("x", 256) },
		"refresh: Invalid":                 func(c *Config) { c.Refresh = time.Second },
		"settle: Invalid":                  func(c *Config) { c.Settle = -1 },
		"unusedAfter: Invalid":             func(c *Config) { c.UnusedAfter = time.Minute },
		"eventQueueURL: Invalid":           func(c *Config) { c.EventQueueURL = "queue" },
		"registryMirrors[docker.io]: Invalid": func(c *Config) {
			c.RegistryMirrors = map[string]string{
				"docker.io": "https://u:secret@h",
			}
		},
		"payloadBucket: Invalid":               func(c *Config) { c.PayloadBucket = "with.dots" },
		"payloadBucket: Required":              func(c *Config) { c.PayloadPrefix = "a" },
		"payloadPrefix: Invalid":               func(c *Config) { c.PayloadBucket, c.PayloadPrefix = "bucket", "/a" },
		`payloadPrefix: Invalid value: "a//b"`: func(c *Config) { c.PayloadBucket, c.PayloadPrefix = "bucket", "a//b" },
		"capacityTypes[0]: Unsupported":        func(c *Config) { c.CapacityTypes = []string{"FARGATE"} },
		"capacityTypes[1]: Duplicate":          func(c *Config) { c.CapacityTypes = []string{CapacitySpot, CapacitySpot} },
		"platformVersion: Invalid":             func(c *Config) { c.PlatformVersion = "1.3.0" },
		"ephemeralStorageGiB: Invalid":         func(c *Config) { c.EphemeralStorageGiB = 20 },
		"logGroup: Required":                   func(c *Config) { c.LogOptions = map[string]string{"mode": "blocking"} },
		"logOptions: Forbidden":                func(c *Config) { c.LogOptions = map[string]string{"awslogs-region": "x"} },
		"cpuArchitecture: Unsupported":         func(c *Config) { c.CPUArchitecture = "amd64" },
		"ebs.roleARN: Required":                func(c *Config) { c.EBS.VolumeType = "gp3" },
		"ebs.volumeType: Unsupported":          func(c *Config) { c.EBS = EBS{RoleARN: role, VolumeType: "standard"} },
		"ebs.filesystemType: Unsupported":      func(c *Config) { c.EBS = EBS{RoleARN: role, FilesystemType: "zfs"} },
		"ebs.kmsKeyID: Invalid":                func(c *Config) { c.EBS = EBS{RoleARN: role, KMSKeyID: "alias/k"} },
		`ebs.kmsKeyID: Invalid value: "a key"`: func(c *Config) {
			c.EBS = EBS{
				RoleARN: role, Encrypted: true, KMSKeyID: "a key",
			}
		},
		"prices.gb: Invalid":         func(c *Config) { c.Rates.GB = 0 },
		"prices.vcpu: Invalid":       func(c *Config) { c.Rates.VCPU = 1001 },
		"prices.storageGB: Invalid":  func(c *Config) { c.Rates.StorageGB = -1 },
		"prices.ebsGB: Invalid":      func(c *Config) { c.Rates.EBSGB = -1 },
		"prices.spotFactor: Invalid": func(c *Config) { c.Rates.SpotFactor = 1.1 },
	} {
		c := right()
		change(&c)
		all := c.Errors(at).ToAggregate()
		if all == nil || !strings.Contains(all.Error(), "backend.ecs."+want) || strings.Contains(all.Error(), "secret") {
			t.Errorf("%v, want %s", all, want)
		}
	}
}

// TestDefaults: what is given stays.
func TestDefaults(t *testing.T) {
	c := Config{}.WithDefaults()
	if c.CPUArchitecture != fargate.X86 || c.Settle != 5*time.Minute || c.UnusedAfter != 24*time.Hour ||
		c.Rates.VCPU == 0 {
		t.Errorf("%+v", c)
	}
	given := Config{
		CPUArchitecture: fargate.ARM, Settle: time.Second, UnusedAfter: time.Hour, Rates: fargate.Rates{VCPU: 1},
	}
	if c = given.WithDefaults(); c.CPUArchitecture != fargate.ARM || c.Settle != time.Second ||
		c.UnusedAfter != time.Hour || c.Rates.VCPU != 1 {
		t.Errorf("%+v", c)
	}
}

func TestPrefixesOfKeysEndWithASlash(t *testing.T) {
	for prefix, want := range map[string]string{"": "", "a/b": "a/b/", "a/": "a/"} {
		c := Config{PayloadBucket: "bucket", PayloadPrefix: prefix}
		if got, errs := c.PayloadKeyPrefix(), c.payloadErrors(nil); got != want || len(errs) > 0 {
			t.Errorf("%q: %q, %v", prefix, got, errs)
		}
	}
}
