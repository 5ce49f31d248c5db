package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Signed is true of a request that was signed with a secret access key (IAM user guide,
// "Create a signed AWS API request"; S3 API, "Authenticating Requests: Using the
// Authorization Header"). S3's path is escaped once and not normalized, unlike that of
// other services.
func Signed(r *http.Request, secretKey string) bool {
	fields := map[string]string{}
	auth, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	for part := range strings.SplitSeq(auth, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	_, scope, scoped := strings.Cut(fields["Credential"], "/")
	parts := strings.Split(scope, "/") // date/region/service/aws4_request
	if !ok || !scoped || len(parts) != 4 {
		return false
	}
	names := strings.Split(fields["SignedHeaders"], ";")
	// "The following headers are required: Host, x-amz-content-sha256, and every x-amz-*".
	if !slices.Contains(names, "host") || !slices.Contains(names, "x-amz-content-sha256") {
		return false
	}
	for name := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") && !slices.Contains(names, name) {
			return false
		}
	}
	sum := sha256.Sum256([]byte(canonical(r, names)))
	toSign := strings.Join(
		[]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), scope, hex.EncodeToString(sum[:])}, "\n",
	)
	key := []byte("AWS4" + secretKey)
	for _, part := range parts {
		key = mac(key, part)
	}
	return hmac.Equal([]byte(hex.EncodeToString(mac(key, toSign))), []byte(fields["Signature"]))
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// canonical is the request as it is signed.
func canonical(r *http.Request, names []string) string {
	var query []string
	for name, values := range r.URL.Query() {
		for _, value := range values {
			query = append(query, encoded(name, false)+"="+encoded(value, false))
		}
	}
	slices.Sort(query)
	var headers strings.Builder
	for _, name := range names {
		value := strings.Join(r.Header.Values(name), ",")
		if name == "host" {
			value = hostOf(r)
		}
		if name == "content-length" && value == "" && r.ContentLength > 0 {
			value = r.Header.Get("Content-Length")
		}
		headers.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	return strings.Join([]string{
		r.Method, encoded(r.URL.Path, true), strings.Join(query, "&"), headers.String(), strings.Join(names, ";"),
		r.Header.Get("X-Amz-Content-Sha256"),
	}, "\n")
}

// encoded is UriEncode of SigV4, with slashes left or not.
func encoded(text string, path bool) string {
	text = strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
	text = strings.ReplaceAll(text, "%7E", "~")
	if path {
		text = strings.ReplaceAll(text, "%2F", "/")
	}
	return text
}
