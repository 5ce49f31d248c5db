package s3

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits (S3 user guide, "Naming Amazon S3 objects"; S3 API, ListObjectsV2: MaxKeys).
const (
	maxKey  = 1024
	maxKeys = 1000
)

// Config says whose and where the buckets are.
type Config struct {
	Region, Account string
	Buckets         []Bucket
}

// Room is S3 with some buckets. It is not safe for concurrent use.
type Room struct {
	cfg     Config
	buckets map[string]*bucket
	// kms counts calls to KMS.
	kms int
}

// New makes a room with empty buckets.
func New(cfg Config) *Room {
	r := &Room{cfg: cfg, buckets: map[string]*bucket{}}
	for _, b := range cfg.Buckets {
		if b.Region == "" {
			b.Region = cfg.Region
		}
		if b.Owner == "" {
			b.Owner = cfg.Account
		}
		r.buckets[b.Name] = &bucket{Bucket: b, objects: map[string]object{}}
	}
	return r
}

// Request is a call with what the answer depends on.
type Request struct {
	Call
	Header http.Header
	Body   []byte
	Now    time.Time
	// May tells whether the caller may do something.
	May func(action, resource string) bool
}

// Error is an error of S3's.
type Error struct {
	Status        int
	Code, Message string
	header        http.Header
}

// Answer is what S3 answers.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Region is where a bucket is, which requests are signed for; the room's for one that does
// not exist.
func (r *Room) Region(bucket string) string {
	if b := r.buckets[bucket]; b != nil {
		return b.Region
	}
	return r.cfg.Region
}

// Objects are all there are, by bucket and key.
func (r *Room) Objects() []Object {
	var out []Object
	for _, name := range slices.Sorted(maps.Keys(r.buckets)) {
		b := r.buckets[name]
		for _, key := range slices.Sorted(maps.Keys(b.objects)) {
			out = append(out, Object{name, key, len(b.objects[key].body), b.objects[key].modified})
		}
	}
	return out
}

// Has is true of a key under which there is an object.
func (r *Room) Has(bucket, key string) bool {
	b := r.buckets[bucket]
	if b == nil {
		return false
	}
	_, ok := b.objects[key]
	return ok
}

// Versions counts the noncurrent versions of all buckets.
func (r *Room) Versions(now time.Time) int {
	n := 0
	for _, b := range r.buckets {
		b.expire(now)
		n += len(b.old)
	}
	return n
}

// Used is what was used of storage, in GB-months, and how many calls to KMS were made.
func (r *Room) Used(now time.Time) (gbMonths float64, kmsCalls int) {
	for _, b := range r.buckets {
		gbMonths += b.byteHours(now)
	}
	const gb, month = 1 << 30, 730
	return gbMonths / gb / month, r.kms
}

// Answer does what is asked for.
func (r *Room) Answer(q Request) (Answer, *Error) {
	b := r.buckets[q.Bucket]
	switch {
	case q.Action == "":
		return Answer{}, &Error{
			Status: http.StatusMethodNotAllowed, Code: "MethodNotAllowed",
			Message: "The specified method is not allowed against this resource.",
		}
	case b == nil:
		return Answer{}, &Error{
			Status: http.StatusNotFound, Code: "NoSuchBucket", Message: "The specified bucket does not exist",
		}
	case b.Region != r.cfg.Region:
		// S3 API, "Redirects": the bucket must be asked where it is.
		return Answer{}, &Error{
			Status: http.StatusMovedPermanently, Code: "PermanentRedirect",
			Message: "The bucket you are attempting to access must be addressed using the specified endpoint. Please send " +
				"all future requests to this endpoint.",
			header: http.Header{"X-Amz-Bucket-Region": {b.Region}},
		}
	}
	if owner := q.Header.Get("X-Amz-Expected-Bucket-Owner"); owner != "" && owner != b.Owner ||
		!q.May(q.permission(), arn(q.Bucket, q.Key)) {
		return Answer{}, denied()
	}
	b.expire(q.Now)
	if q.Key == "" {
		return r.ofBucket(b, q)
	}
	return r.ofObject(b, q)
}

func denied() *Error {
	return &Error{Status: http.StatusForbidden, Code: "AccessDenied", Message: "Access Denied"}
}

func arn(bucket, key string) string {
	if key == "" {
		return "arn:aws:s3:::" + bucket
	}
	return "arn:aws:s3:::" + bucket + "/" + key
}

// ofObject answers what is asked of an object.
func (r *Room) ofObject(b *bucket, q Request) (Answer, *Error) {
	if len(q.Key) > maxKey {
		return Answer{}, &Error{Status: http.StatusBadRequest, Code: "KeyTooLongError", Message: "Your key is too long"}
	}
	switch q.Action {
	case "PutObject":
		if e := intact(q); e != nil {
			return Answer{}, e
		}
		if e := r.encrypts(b, q, "kms:GenerateDataKey"); e != nil {
			return Answer{}, e
		}
		o := b.put(q.Key, bytes.Clone(q.Body), q.Now)
		return Answer{Status: http.StatusOK, Header: headers(b, o)}, nil
	case "DeleteObject":
		b.drop(q.Key, q.Now) // "The operation succeeds" where there is none
		return Answer{Status: http.StatusNoContent, Header: http.Header{}}, nil
	}
	o, ok := b.objects[q.Key]
	if !ok {
		if !b.Lists {
			return Answer{}, denied()
		}
		return Answer{}, &Error{Status: http.StatusNotFound, Code: "NoSuchKey", Message: "The specified key does not exist."}
	}
	if e := r.encrypts(b, q, "kms:Decrypt"); e != nil {
		return Answer{}, e
	}
	h := headers(b, o)
	h.Set("Last-Modified", o.modified.UTC().Format(http.TimeFormat))
	h.Set("Content-Length", strconv.Itoa(len(o.body)))
	h.Set("Content-Type", "binary/octet-stream")
	if q.Header.Get("If-None-Match") == o.etag {
		h.Del("Content-Length")
		return Answer{Status: http.StatusNotModified, Header: h}, nil
	}
	a := Answer{Status: http.StatusOK, Header: h, Body: o.body}
	if q.Action == "HeadObject" {
		a.Body = nil
	}
	return a, nil
}

// intact compares what was sent with the sums that were sent with it (S3 API, PutObject:
// x-amz-content-sha256, Content-MD5).
func intact(q Request) *Error {
	sum := sha256.Sum256(q.Body)
	switch want := q.Header.Get("X-Amz-Content-Sha256"); want {
	case "UNSIGNED-PAYLOAD", hex.EncodeToString(sum[:]):
		return nil
	case "":
		return &Error{
			Status: http.StatusBadRequest, Code: "MissingSecurityHeader", Message: "Your request was missing a required header",
		}
	default:
		if strings.HasPrefix(want, "STREAMING-") {
			return &Error{
				Status: http.StatusNotImplemented, Code: "NotImplemented",
				Message: "A header you provided implies functionality that is not implemented",
			}
		}
		return &Error{
			Status: http.StatusBadRequest, Code: "XAmzContentSHA256Mismatch",
			Message: "The provided 'x-amz-content-sha256' header does not match what was computed.",
		}
	}
}

// encrypts is what default encryption with a KMS key takes of the caller (S3 user guide,
// "Using server-side encryption with AWS KMS keys"). With a bucket key S3 asks KMS only
// now and then.
func (r *Room) encrypts(b *bucket, q Request, action string) *Error {
	if b.KMSKey == "" {
		return nil
	}
	if !q.May(action, b.KMSKey) {
		return denied()
	}
	if !b.BucketKey {
		r.kms++
	}
	return nil
}

func headers(b *bucket, o object) http.Header {
	h := http.Header{"Etag": {o.etag}, "X-Amz-Server-Side-Encryption": {"AES256"}}
	if b.KMSKey != "" {
		h.Set("X-Amz-Server-Side-Encryption", "aws:kms")
		h.Set("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id", b.KMSKey)
	}
	return h
}

// ofBucket answers what is asked of a bucket.
func (r *Room) ofBucket(b *bucket, q Request) (Answer, *Error) {
	switch q.Action {
	case "HeadBucket":
		return Answer{Status: http.StatusOK, Header: http.Header{"X-Amz-Bucket-Region": {b.Region}}}, nil
	case "ListObjectsV2":
		return list(b, q)
	case "GetBucketLocation":
		region := b.Region
		if region == "us-east-1" {
			region = "" // S3 API, GetBucketLocation: "have a LocationConstraint of null"
		}
		return xmlAnswer("LocationConstraint", text(region)), nil
	case "GetBucketEncryption":
		algorithm, key := "AES256", ""
		if b.KMSKey != "" {
			algorithm, key = "aws:kms", element("KMSMasterKeyID", text(b.KMSKey))
		}
		return xmlAnswer("ServerSideEncryptionConfiguration", element("Rule",
			element("ApplyServerSideEncryptionByDefault", element("SSEAlgorithm", text(algorithm))+key)+
				element("BucketKeyEnabled", strconv.FormatBool(b.BucketKey)))), nil
	case "GetPublicAccessBlock":
		if b.Public {
			return Answer{}, &Error{
				Status: http.StatusNotFound, Code: "NoSuchPublicAccessBlockConfiguration",
				Message: "The public access block configuration was not found",
			}
		}
		return xmlAnswer("PublicAccessBlockConfiguration", element("BlockPublicAcls", "true")+
			element("IgnorePublicAcls", "true")+
			element("BlockPublicPolicy", "true")+element("RestrictPublicBuckets", "true")), nil
	case "GetBucketVersioning":
		status := ""
		if b.Versioned {
			status = element("Status", "Enabled")
		}
		return xmlAnswer("VersioningConfiguration", status), nil
	default: // GetBucketLifecycleConfiguration
		if b.NoncurrentDays == 0 && b.ExpireDays == 0 {
			return Answer{}, &Error{
				Status: http.StatusNotFound, Code: "NoSuchLifecycleConfiguration",
				Message: "The lifecycle configuration does not exist",
			}
		}
		rule := element("ID", "rule") + element("Status", "Enabled") + element("Filter", element("Prefix", ""))
		if b.ExpireDays > 0 {
			rule += element("Expiration", element("Days", strconv.Itoa(b.ExpireDays)))
		}
		if b.NoncurrentDays > 0 {
			rule += element("NoncurrentVersionExpiration", element("NoncurrentDays", strconv.Itoa(b.NoncurrentDays)))
		}
		return xmlAnswer("LifecycleConfiguration", element("Rule", rule)), nil
	}
}

// list is S3 API, ListObjectsV2, without delimiters. A token is the key after which the next
// page begins.
func list(b *bucket, q Request) (Answer, *Error) {
	invalid := &Error{
		Status: http.StatusBadRequest, Code: "InvalidArgument", Message: "The continuation token provided is incorrect",
	}
	limit := maxKeys
	if given := q.query.Get("max-keys"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 0 {
			return Answer{}, invalid
		}
		limit = min(n, maxKeys)
	}
	after := q.query.Get("start-after")
	if token := q.query.Get("continuation-token"); token != "" {
		key, err := base64.URLEncoding.DecodeString(token)
		if err != nil {
			return Answer{}, invalid
		}
		after = string(key)
	}
	var out strings.Builder
	n, last, more := 0, "", false
	for _, key := range slices.Sorted(maps.Keys(b.objects)) {
		if key <= after || !strings.HasPrefix(key, q.query.Get("prefix")) {
			continue
		}
		if more = n == limit; more {
			break
		}
		o := b.objects[key]
		out.WriteString(element("Contents", element("Key", text(key))+
			element("LastModified", o.modified.UTC().Format("2006-01-02T15:04:05.000Z"))+element("ETag", text(o.etag))+
			element("Size", strconv.Itoa(len(o.body)))+element("StorageClass", "STANDARD")))
		n, last = n+1, key
	}
	head := element("Name", text(b.Name)) + element(
		"Prefix", text(q.query.Get("prefix")),
	) + element("KeyCount", strconv.Itoa(n)) +
		element("MaxKeys", strconv.Itoa(limit)) + element("IsTruncated", strconv.FormatBool(more))
	if more {
		head += element("NextContinuationToken", base64.URLEncoding.EncodeToString([]byte(last)))
	}
	return xmlAnswer("ListBucketResult", head+out.String()), nil
}

// Write is an error as S3 writes it.
func (e *Error) Write(w http.ResponseWriter, head bool) {
	for name, values := range e.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(e.Status)
	if !head { // S3 API, HeadObject: "no response body"
		// The client has gone if this fails; nobody is left to tell.
		_, _ = fmt.Fprint(w, declaration, element("Error", element("Code", text(e.Code))+element("Message", text(e.Message))+
			element("RequestId", "0000000000000000")))
	}
}

// Write writes an answer.
func (a Answer) Write(w http.ResponseWriter) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // as above
}
