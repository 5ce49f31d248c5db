package s3

import (
	"crypto/md5" //nolint:gosec // an ETag is one, and no protection
	"encoding/hex"
	"time"
)

// Bucket is one that exists, as it is set up. The zero value but for its name is a new
// bucket of today: encrypted with S3's keys, public access blocked, without versions.
type Bucket struct {
	Name string
	// Region is where it is, and Owner whose; empty: the server's own.
	Region, Owner string
	// KMSKey is the ARN of the key of its default encryption (SSE-KMS); empty: SSE-S3.
	KMSKey string
	// BucketKey is S3 Bucket Keys: nearly no calls to KMS.
	BucketKey bool
	// Public lacks the block of public access.
	Public bool
	// Versioned keeps what is overwritten or deleted; NoncurrentDays is after how long a
	// lifecycle rule ends such versions, 0 without one.
	Versioned      bool
	NoncurrentDays int
	// ExpireDays is after how long a lifecycle rule deletes objects, 0 without one.
	ExpireDays int
	// Lists is true where the callers' s3:ListBucket has no condition: only then is a key
	// that is not there a 404 to them, and else a 403 (S3 API, GetObject: Permissions).
	Lists bool
}

// Object is what is stored under a key.
type Object struct {
	Bucket   string    `json:"bucket"`
	Key      string    `json:"key"`
	Bytes    int       `json:"bytes"`
	Modified time.Time `json:"modified"`
}

// object is an object with its contents.
type object struct {
	body     []byte
	etag     string
	modified time.Time
}

// bucket is a Bucket with what is in it.
type bucket struct {
	Bucket
	objects map[string]object
	// old are noncurrent versions, with when they came to be so.
	old []version
	// stored are byte-hours of what is stored no longer.
	stored float64
}

type version struct {
	object
	since time.Time
}

// put stores an object in the place of what is there.
func (b *bucket) put(key string, body []byte, now time.Time) object {
	b.drop(key, now)
	sum := md5.Sum(body) //nolint:gosec // as above
	o := object{body: body, etag: `"` + hex.EncodeToString(sum[:]) + `"`, modified: now}
	b.objects[key] = o
	return o
}

// drop takes away what is under a key; a bucket with versions keeps it as one.
func (b *bucket) drop(key string, now time.Time) {
	o, ok := b.objects[key]
	if !ok {
		return
	}
	delete(b.objects, key)
	if b.Versioned {
		b.old = append(b.old, version{o, now})
		return
	}
	b.stored += byteHours(o, now)
}

func byteHours(o object, until time.Time) float64 {
	return float64(len(o.body)) * until.Sub(o.modified).Hours()
}

// expire ends what the time has come for (S3 user guide, "Lifecycle configuration
// elements": Expiration, NoncurrentVersionExpiration).
func (b *bucket) expire(now time.Time) {
	for key, o := range b.objects {
		if b.ExpireDays > 0 && now.Sub(o.modified) >= time.Duration(b.ExpireDays)*24*time.Hour {
			b.drop(key, now)
		}
	}
	if b.NoncurrentDays == 0 {
		return
	}
	left := b.old[:0]
	for _, v := range b.old {
		if end := v.since.Add(time.Duration(b.NoncurrentDays) * 24 * time.Hour); now.Before(end) {
			left = append(left, v)
		} else {
			b.stored += byteHours(v.object, end)
		}
	}
	b.old = left
}

// byteHours are those of all that was ever stored.
func (b *bucket) byteHours(now time.Time) float64 {
	b.expire(now)
	sum := b.stored
	for _, o := range b.objects {
		sum += byteHours(o, now)
	}
	for _, v := range b.old {
		sum += byteHours(v.object, now)
	}
	return sum
}
