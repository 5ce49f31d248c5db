package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/payload"
)

// whatBucket is what findings on the bucket are about.
const whatBucket = "payload bucket"

// bucketPrefix begins the keys of the node's objects.
func (d *doctor) bucketPrefix() string {
	return payload.Place{Bucket: d.cfg.PayloadBucket, KeyPrefix: d.cfg.PayloadKeyPrefix()}.Prefix(d.cfg.NodeIdentity)
}

func (d *doctor) bucketARN() string {
	name, _ := partition(d.cfg.Region)
	return "arn:" + name + ":s3:::" + d.cfg.PayloadBucket
}

// wantedObjects are what the bucket takes, but for s3:ListBucket, which checkBucket has.
// None can be tried: without listing S3 says the same of an object that is not there and
// of one that may not be read.
func (d *doctor) wantedObjects() []permission {
	if d.cfg.PayloadBucket == "" {
		return nil
	}
	own := map[string]string{"s3:ResourceAccount": d.account}
	var out []permission
	for _, action := range []string{"s3:PutObject", "s3:GetObject", "s3:DeleteObject"} {
		out = append(out, permission{
			action: action, resource: d.bucketARN() + "/" + d.bucketPrefix() + "pod/doctor", sid: "Payloads", context: own,
		})
	}
	return out
}

// checkBucket asks whether the bucket is there, in the node's region and account, and set
// up so that what is in it stays private and goes when burstlet deletes it.
func (d *doctor) checkBucket(ctx context.Context) {
	bucket, owner := d.cfg.PayloadBucket, d.account
	if bucket == "" {
		return
	}
	prefix := d.bucketPrefix()
	_, err := d.clients.Objects.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
		Bucket: &bucket, Prefix: &prefix, MaxKeys: aws.Int32(1), ExpectedBucketOwner: &owner,
	})
	switch {
	case isDeniedCall(err):
		f := d.lacks(permission{action: "s3:ListBucket", resource: d.bucketARN(), sid: "ListPayloads"})
		f.Advice += "; a bucket of another account than " + owner + " is denied too"
		d.add(f)
		return
	case awscall.IsCode(err, "NoSuchBucket"):
		d.add(backend.Bad(whatBucket, "there is no "+bucket,
			"make it as deploy/aws/README.md says, or set backend.ecs.payloadBucket"))
		return
	case awscall.IsCode(err, "PermanentRedirect"), awscall.IsCode(err, "AuthorizationHeaderMalformed"):
		d.add(backend.Bad(whatBucket, bucket+" is not in "+d.cfg.Region+": "+plainError(err),
			"set backend.ecs.payloadBucket to a bucket of the node's region"))
		return
	case err != nil:
		d.add(backend.Bad(whatBucket, plainError(err), "check the network to S3, and region"))
		return
	}
	problems := len(d.found)
	encryption := d.encryption(ctx, bucket, owner)
	d.publicAccess(ctx, bucket, owner)
	d.lifecycle(ctx, bucket, owner)
	if len(d.found) == problems {
		d.add(backend.Good(whatBucket, bucket+" is there"+encryption))
	}
}

// notLookedAt notes what may not be looked at, and is true then.
func (d *doctor) notLookedAt(err error, what string) bool {
	if isDeniedCall(err) {
		d.unchecked = append(d.unchecked, what)
		return true
	}
	if err != nil {
		d.add(backend.Doubtful(whatBucket, what+": "+plainError(err), "check the network to S3"))
	}
	return err != nil
}

// encryption says how the bucket encrypts what is put into it. Every bucket does (S3 user
// guide, "Setting default server-side encryption behavior").
func (d *doctor) encryption(ctx context.Context, bucket, owner string) string {
	out, err := d.clients.Objects.GetBucketEncryption(ctx,
		&s3.GetBucketEncryptionInput{Bucket: &bucket, ExpectedBucketOwner: &owner})
	if d.notLookedAt(err, "the bucket's encryption (s3:GetEncryptionConfiguration)") {
		return ""
	}
	for _, r := range out.ServerSideEncryptionConfiguration.Rules {
		by := r.ApplyServerSideEncryptionByDefault
		if by == nil || by.SSEAlgorithm == s3types.ServerSideEncryptionAes256 {
			continue
		}
		detail := "encrypts with the KMS key " + aws.ToString(by.KMSMasterKeyID)
		if !aws.ToBool(r.BucketKeyEnabled) {
			d.add(backend.Doubtful(whatBucket, bucket+" "+detail+", asked for each object: every look of every pod at its "+
				"files is billed by KMS", "enable S3 Bucket Keys (BucketKeyEnabled in put-bucket-encryption)"))
		}
		return ", and " + detail
	}
	return ", and encrypts with S3's own keys"
}

// publicAccess warns of a bucket without a block: that of the account is not looked at.
func (d *doctor) publicAccess(ctx context.Context, bucket, owner string) {
	out, err := d.clients.Objects.GetPublicAccessBlock(ctx,
		&s3.GetPublicAccessBlockInput{Bucket: &bucket, ExpectedBucketOwner: &owner})
	none := awscall.IsCode(err, "NoSuchPublicAccessBlockConfiguration")
	if !none && d.notLookedAt(err, "the bucket's block of public access (s3:GetBucketPublicAccessBlock)") {
		return
	}
	if !none {
		c := out.PublicAccessBlockConfiguration
		if aws.ToBool(c.BlockPublicAcls) && aws.ToBool(c.IgnorePublicAcls) && aws.ToBool(c.BlockPublicPolicy) &&
			aws.ToBool(c.RestrictPublicBuckets) {
			return
		}
	}
	d.add(backend.Doubtful(whatBucket, bucket+" does not block public access",
		"aws s3api put-public-access-block, as deploy/aws/README.md says"))
}

// lifecycle warns of versions that stay, and of rules that delete what pods still need.
func (d *doctor) lifecycle(ctx context.Context, bucket, owner string) {
	out, err := d.clients.Objects.GetBucketLifecycleConfiguration(ctx,
		&s3.GetBucketLifecycleConfigurationInput{Bucket: &bucket, ExpectedBucketOwner: &owner})
	if err = but(err, "NoSuchLifecycleConfiguration"); d.notLookedAt(err,
		"the bucket's lifecycle (s3:GetLifecycleConfiguration)") {
		return
	}
	ends := false
	if out != nil {
		for _, r := range out.Rules {
			deletes, endsVersions := whatEnds(r, d.bucketPrefix()+payload.PodKeys)
			if deletes {
				d.add(backend.Bad(whatBucket, fmt.Sprintf("rule %s of %s deletes files of pods that still run", aws.ToString(r.ID),
					bucket),
					"leave the prefix "+d.cfg.PayloadKeyPrefix()+"burstlet/ out of it: burstlet deletes its objects itself"))
			}
			ends = ends || endsVersions
		}
	}
	versioning, err := d.clients.Objects.GetBucketVersioning(ctx,
		&s3.GetBucketVersioningInput{Bucket: &bucket, ExpectedBucketOwner: &owner})
	if d.notLookedAt(err, "the bucket's versioning (s3:GetBucketVersioning)") || versioning.Status == "" || ends {
		return
	}
	d.add(backend.Doubtful(whatBucket,
		bucket+" keeps versions: what burstlet replaces or deletes stays, encrypted, and is paid for",
		"set the rule of deploy/aws/payload-bucket-lifecycle.json, or use a bucket without versions"))
}

// whatEnds says whether a rule deletes objects of pods, whose keys begin with a prefix, and
// whether it ends what they all were before.
func whatEnds(r s3types.LifecycleRule, prefix string) (objects, versions bool) {
	of := aws.ToString(r.Prefix) //nolint:staticcheck // old rules have it here
	if f := r.Filter; f != nil {
		if f.Tag != nil || f.And != nil && len(f.And.Tags) > 0 {
			return false, false // burstlet's objects have no tags
		}
		of = aws.ToString(f.Prefix)
		if f.And != nil {
			of = aws.ToString(f.And.Prefix)
		}
	}
	if r.Status != s3types.ExpirationStatusEnabled {
		return false, false
	}
	all, e := strings.HasPrefix(prefix, of), r.Expiration
	some := all || strings.HasPrefix(of, prefix)
	return some && e != nil && (aws.ToInt32(e.Days) > 0 || e.Date != nil), all && r.NoncurrentVersionExpiration != nil
}
