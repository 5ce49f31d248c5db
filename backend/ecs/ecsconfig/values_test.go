package ecsconfig

import (
	"strings"
	"testing"
)

// TestForms: which values a configuration and the annotations of pods may have. A value is taken
// as a whole: no part of it is enough.
func TestForms(t *testing.T) {
	const arn = "arn:aws:iam::123456789012:role/"
	for name, tt := range map[string]struct {
		valid     func(string) error
		good, bad []string
	}{
		"platform version": {
			ValidPlatform,
			[]string{"LATEST", "1.4.0", "1.5.0", "1.10.0", "1.99.12", "2.0.0"},
			[]string{"", "latest", "1.3.0", "1.0.0", "1.4", "0.4.0", "1.4.0 ", "x1.4.0", "1.100.0", "10.0.0"},
		},
		"volume type": {
			ValidVolumeType,
			[]string{"gp3", "gp2", "io1", "io2", "st1", "sc1"},
			[]string{"", "standard", "GP3", "gp3 ", "gp"},
		},
		"file system": {
			ValidFilesystem,
			[]string{"ext3", "ext4", "xfs"},
			[]string{"", "ntfs", "ext2", "XFS"},
		},
		"role": {
			ValidRole,
			[]string{
				arn + "r", arn + "path/to/r", "arn:aws-cn:iam::123456789012:role/r",
				"arn:aws-us-gov:iam::123456789012:role/r",
			},
			[]string{
				"", "r", arn, "arn:aws:iam::12345678901:role/r", "arn:aws:iam::123456789012:user/r",
				"arn:aws:sts::123456789012:role/r",
				" " + arn + "r", "arn:aws:iam:eu-west-1:123456789012:role/r",
			},
		},
		"bucket": {
			ValidBucket,
			[]string{"abc", "a-b", "1bucket", strings.Repeat("a", 63)},
			[]string{"", "ab", "Abc", "a.b", "-ab", "ab-", "a_b", strings.Repeat("a", 64), "s3://abc"},
		},
		"prefix of keys": {
			ValidKeyPrefix,
			[]string{"a", "a/", "clusters/one", "A-b_c/9", "a/b/c/"},
			[]string{"", "/", "/a", "a//b", "a/../b", "a b", "ä", "a/b//", strings.Repeat("a", MaxKeyPrefix+1)},
		},
		"mirror": {
			func(s string) error { _, err := Mirror(s); return err },
			[]string{
				"mirror", "mirror:5000", "https://mirror.example:5000", "http://10.0.0.1", "https://mirror/",
				"https://[fd00::1]:5000",
			},
			[]string{
				"", "https://", "ftp://mirror", "https://mirror/v2", "mirror/path", "https://u:p@mirror",
				"u@mirror", "https://mir ror",
			},
		},
	} {
		for _, value := range tt.good {
			if err := tt.valid(value); err != nil {
				t.Errorf("%s %q: %v", name, value, err)
			}
		}
		for _, value := range tt.bad {
			err := tt.valid(value)
			if err == nil || !strings.Contains(err.Error(), "must be") {
				t.Errorf("%s %q: %v", name, value, err)
			}
			if err != nil && strings.Contains(err.Error(), "u:p@") {
				t.Errorf("%s: a password is quoted: %v", name, err)
			}
		}
	}
}

// TestCapacityTypes: each at most once, in any order.
func TestCapacityTypes(t *testing.T) {
	const says = "must be spot, on-demand or both in the order to try, not "
	for types, want := range map[string]string{
		"":                    "",
		"spot":                "",
		"on-demand":           "",
		"spot,on-demand":      "",
		"on-demand,spot":      "",
		"Spot":                says + `"Spot"`,
		"spot,spot":           says + `"spot,spot"`,
		"spot,on-demand,spot": says + `"spot,on-demand,spot"`,
		"spot,reserved":       says + `"spot,reserved"`,
		"spot,":               says + `"spot,"`,
	} {
		var given []string
		if types != "" {
			given = strings.Split(types, ",")
		}
		got := ""
		if err := ValidCapacity(given); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", types, got, want)
		}
	}
}

// TestLogOptions: burstlet finds logs by options of its own, and a secret does not stand among
// those that everybody who may read task definitions sees.
func TestLogOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		driver  string
		options map[string]string
		says    string
	}{
		"none": {DriverAWSLogs, nil, ""},
		"one of the driver": {
			DriverAWSLogs, map[string]string{"mode": "non-blocking", "max-buffer-size": "4m"}, "",
		},
		"the group": {
			DriverAWSLogs, map[string]string{"awslogs-group": "g"}, "awslogs-group is burstlet's own",
		},
		"the region": {
			DriverAWSLogs, map[string]string{"awslogs-region": "r"}, "awslogs-region is burstlet's own",
		},
		"the prefix": {
			DriverAWSLogs, map[string]string{"awslogs-stream-prefix": "p"}, "awslogs-stream-prefix is burstlet's own",
		},
		"the first by its name": {
			DriverAWSLogs, map[string]string{"awslogs-region": "r", "awslogs-group": "g"}, "awslogs-group is",
		},
		"of another driver": {"splunk", map[string]string{"splunk-url": "https://x"}, ""},
		"a token": {
			"splunk", map[string]string{"splunk-token": "s3cr3t"}, "splunk-token would stand in the task definition",
		},
		"a group, elsewhere": {"awsfirelens", map[string]string{"awslogs-group": "g"}, ""},
		"an empty driver's":  {"", map[string]string{"awslogs-group": "g"}, ""},
	} {
		err := ValidLogOptions(tt.driver, tt.options)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
		if err != nil && strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: a secret is quoted", name)
		}
	}
}

// TestWhereAMirrorIs: a host alone is asked by HTTPS.
func TestWhereAMirrorIs(t *testing.T) {
	for endpoint, want := range map[string]string{
		"mirror:5000":         "https://mirror:5000",
		"https://mirror":      "https://mirror",
		"http://mirror":       "http://mirror",
		"http://mirror:5000/": "http://mirror:5000/",
	} {
		if u, err := Mirror(endpoint); err != nil || u.String() != want {
			t.Errorf("%q: %v, %v; want %s", endpoint, u, err, want)
		}
	}
}
