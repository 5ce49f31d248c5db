package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// oldRule is one of before rules had filters.
func oldRule(prefix string) s3types.LifecycleRule {
	return s3types.LifecycleRule{
		Prefix:     &prefix, //nolint:staticcheck // rules of long ago have it here
		Expiration: &s3types.LifecycleExpiration{Days: aws.Int32(30)},
	}
}

func TestWhichLifecycleRulesDeleteFilesOfPods(t *testing.T) {
	const pods = "clusters/one/burstlet/abc/pod/"
	below := func(prefix string) *s3types.LifecycleRuleFilter {
		return &s3types.LifecycleRuleFilter{Prefix: &prefix}
	}
	tag := s3types.Tag{Key: aws.String("k"), Value: aws.String("v")}
	days, versions := &s3types.LifecycleExpiration{Days: aws.Int32(30)},
		&s3types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(1)}
	for name, tc := range map[string]struct {
		rule          s3types.LifecycleRule
		deletes, ends bool
	}{
		"all": {
			rule:    s3types.LifecycleRule{Expiration: days, NoncurrentVersionExpiration: versions},
			deletes: true, ends: true,
		},
		"no filter": {rule: s3types.LifecycleRule{Expiration: days}, deletes: true},
		"at a date": {rule: s3types.LifecycleRule{Expiration: &s3types.LifecycleExpiration{Date: aws.Time(time.Unix(1,
			0))}}, deletes: true},
		"only markers": {
			rule: s3types.LifecycleRule{Expiration: &s3types.LifecycleExpiration{ExpiredObjectDeleteMarker: aws.Bool(true)}},
		},
		"only versions": {rule: s3types.LifecycleRule{NoncurrentVersionExpiration: versions}, ends: true},
		"below the prefix of keys": {
			rule: s3types.LifecycleRule{
				Filter: below("clusters/one/"), Expiration: days,
				NoncurrentVersionExpiration: versions,
			},
			deletes: true, ends: true,
		},
		"below another": {
			rule: s3types.LifecycleRule{Filter: below("clusters/two/"), Expiration: days, NoncurrentVersionExpiration: versions},
		},
		"of pods alone": {
			rule:    s3types.LifecycleRule{Filter: below(pods), Expiration: days, NoncurrentVersionExpiration: versions},
			deletes: true, ends: true,
		},
		"of one pod": {
			rule:    s3types.LifecycleRule{Filter: below(pods + "u/"), Expiration: days, NoncurrentVersionExpiration: versions},
			deletes: true,
		},
		"an old rule":        {rule: oldRule("clusters/"), deletes: true},
		"an old one, beside": {rule: oldRule("other/")},
		"what has a tag": {rule: s3types.LifecycleRule{
			Filter:     &s3types.LifecycleRuleFilter{Tag: &tag},
			Expiration: days,
		}},
		"what has a tag and a prefix": {rule: s3types.LifecycleRule{Filter: &s3types.LifecycleRuleFilter{
			And: &s3types.LifecycleRuleAndOperator{Prefix: aws.String(""), Tags: []s3types.Tag{tag}},
		}, Expiration: days}},
		"what is small": {rule: s3types.LifecycleRule{Filter: &s3types.LifecycleRuleFilter{
			And: &s3types.LifecycleRuleAndOperator{Prefix: aws.String("clusters/"), ObjectSizeLessThan: aws.Int64(1)},
		}, Expiration: days}, deletes: true},
		"not in force": {
			rule: s3types.LifecycleRule{
				Status: s3types.ExpirationStatusDisabled, Expiration: days,
				NoncurrentVersionExpiration: versions,
			},
		},
	} {
		if tc.rule.Status == "" {
			tc.rule.Status = s3types.ExpirationStatusEnabled
		}
		if deletes, ends := whatEnds(tc.rule, pods); deletes != tc.deletes || ends != tc.ends {
			t.Errorf("%s: deletes %v, ends versions %v", name, deletes, ends)
		}
	}
}

// What has no bucket asks for no right to one, and where it is decides its ARN.
func TestRightsToTheBucket(t *testing.T) {
	d := &doctor{account: "123456789012"}
	if got := d.wantedObjects(); got != nil {
		t.Errorf("without a bucket: %v", got)
	}
	d.cfg.PayloadBucket, d.cfg.Region, d.cfg.NodeIdentity = "payloads", "cn-north-1", "node"
	got := d.wantedObjects()
	if len(got) != 3 {
		t.Fatalf("%v", got)
	}
	for _, p := range got {
		if !strings.HasPrefix(p.resource, "arn:aws-cn:s3:::payloads/burstlet/") ||
			!strings.HasSuffix(p.resource, "/pod/doctor") ||
			p.context["s3:ResourceAccount"] != "123456789012" {
			t.Errorf("%+v", p)
		}
	}
}
