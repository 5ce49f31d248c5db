package s3

import (
	"net/http"
	"testing"
)

// The examples of S3 API, "Authenticating Requests: Using the Authorization Header
// (Transferring Payload in a Single Chunk)", with AWS's own signatures.
func TestSignaturesOfAWSsExamples(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	const secretKey = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	for name, tc := range map[string]struct {
		method, url, signed, signature string
		headers                        map[string]string
	}{
		"GET object": {
			method: http.MethodGet, url: "https://examplebucket.s3.amazonaws.com/test.txt",
			signed:    "host;range;x-amz-content-sha256;x-amz-date",
			signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
			headers:   map[string]string{"Range": "bytes=0-9"},
		},
		"PUT object": {
			method: http.MethodPut, url: "https://examplebucket.s3.amazonaws.com/test$file.text",
			signed:    "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
			signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
			headers: map[string]string{
				"Date": "Fri, 24 May 2013 00:00:00 GMT", "X-Amz-Storage-Class": "REDUCED_REDUNDANCY",
				"X-Amz-Content-Sha256": "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
			},
		},
		"list objects": {
			method: http.MethodGet, url: "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J",
			signed:    "host;x-amz-content-sha256;x-amz-date",
			signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), tc.method, tc.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Amz-Date", "20130524T000000Z")
			r.Header.Set("X-Amz-Content-Sha256", empty)
			for name, value := range tc.headers {
				r.Header.Set(name, value)
			}
			r.Header.Set(
				"Authorization",
				"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders="+
					tc.signed+", Signature="+tc.signature,
			)
			if !Signed(r, secretKey) {
				t.Error("AWS's own signature is refused")
			}
			if Signed(r, secretKey+"x") {
				t.Error("another key's is taken")
			}
			r.URL.Path += "x"
			if Signed(r, secretKey) {
				t.Error("another object's is taken")
			}
		})
	}
}
