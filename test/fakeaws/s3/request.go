package s3

import (
	"net/http"
	"net/url"
	"strings"
)

// Call is what a request asks for.
type Call struct {
	// Action is the operation, as in the API reference; empty: there is no such.
	Action string
	// Bucket and Key are as the request names them; Key is empty for a bucket's own.
	Bucket, Key string
	query       url.Values
}

// subresources are the operations on a bucket that a parameter without a value names.
var subresources = map[string]string{
	"encryption":        "GetBucketEncryption",
	"lifecycle":         "GetBucketLifecycleConfiguration",
	"location":          "GetBucketLocation",
	"publicAccessBlock": "GetPublicAccessBlock",
	"versioning":        "GetBucketVersioning",
}

// Parse reads a request in virtual-hosted style (the bucket is the first label of the host)
// or path style (S3 user guide, "Virtual hosting of general purpose buckets").
func Parse(r *http.Request) Call {
	c := Call{query: r.URL.Query()}
	path := strings.TrimPrefix(r.URL.Path, "/")
	if label, rest, ok := strings.Cut(hostOf(r), "."); ok && hosted(label, rest) {
		c.Bucket, c.Key = label, path
	} else {
		c.Bucket, c.Key, _ = strings.Cut(path, "/")
	}
	switch {
	case c.Bucket == "":
	case c.Key != "":
		c.Action = map[string]string{
			http.MethodGet: "GetObject", http.MethodHead: "HeadObject", http.MethodPut: "PutObject",
			http.MethodDelete: "DeleteObject",
		}[r.Method]
	case r.Method == http.MethodHead:
		c.Action = "HeadBucket"
	case r.Method == http.MethodGet && c.query.Get("list-type") == "2":
		c.Action = "ListObjectsV2"
	case r.Method == http.MethodGet:
		for name, action := range subresources {
			if c.query.Has(name) {
				c.Action = action
			}
		}
	}
	return c
}

// hostOf is the host of a request, received or about to be sent.
func hostOf(r *http.Request) string {
	if r.Host != "" {
		return r.Host
	}
	return r.URL.Host
}

// hosted is true of a host that begins with a bucket: s3.REGION.amazonaws.com itself and
// addresses do not.
func hosted(label, rest string) bool {
	if label == "s3" || strings.Trim(label, "0123456789") == "" {
		return false
	}
	return strings.HasPrefix(rest, "s3.") || strings.HasSuffix(rest, ".invalid")
}

// permission is the right that an operation takes (S3 user guide, "Required permissions for
// Amazon S3 API operations").
func (c Call) permission() string {
	switch c.Action {
	case "HeadObject":
		return "s3:GetObject"
	case "HeadBucket", "ListObjectsV2":
		return "s3:ListBucket"
	case "GetBucketEncryption":
		return "s3:GetEncryptionConfiguration"
	case "GetBucketLifecycleConfiguration":
		return "s3:GetLifecycleConfiguration"
	case "GetPublicAccessBlock":
		return "s3:GetBucketPublicAccessBlock"
	}
	return "s3:" + c.Action
}

// Writes is true of an operation of the rate of those that write (S3 user guide, "Best
// practices design patterns: optimizing Amazon S3 performance").
func (c Call) Writes() bool { return c.Action == "PutObject" || c.Action == "DeleteObject" }
