package ecs

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/burstlet/burstlet/test/fakeaws/s3"
)

// isS3 is true of a request that is signed for S3.
func isS3(r *http.Request) bool {
	return r.Header.Get("X-Amz-Target") == "" && strings.Contains(r.Header.Get("Authorization"), "/s3/aws4_request")
}

// maxObject bounds what is put; S3 itself takes 5 GB at once.
const maxObject = 32 << 20

// serveS3 answers a call of S3.
func (s *Server) serveS3(w http.ResponseWriter, r *http.Request) {
	asked := s3.Parse(r)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxObject))
	if err != nil {
		(&s3.Error{
			Status: http.StatusBadRequest, Code: "EntityTooLarge",
			Message: "Your proposed upload exceeds the maximum allowed size",
		}).Write(w, false)
		return
	}
	call, before, after := s.enter("s3", asked.Action)
	if before != nil && before(call) != nil {
		panic(http.ErrAbortHandler)
	}
	out, fault, e := s.answerS3(r, asked, body)
	if e != nil {
		call.Error = e.Code
		if s.cfg.Reworded {
			e.Message = "This cannot be done as things are. Consult the documentation."
		}
	}
	if after != nil && after(call) != nil || fault != nil && fault.LoseReply {
		panic(http.ErrAbortHandler)
	}
	switch {
	case e != nil:
		e.Write(w, r.Method == http.MethodHead)
	case fault != nil && fault.Garble:
		s3.Answer{Status: http.StatusOK, Body: []byte("garbled")}.Write(w)
	default:
		out.Write(w)
	}
}

func (s *Server) answerS3(r *http.Request, asked s3.Call, body []byte) (s3.Answer, *Fault, *s3.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, fault := time.Now(), s.takeFault("s3", asked.Action)
	who, e := s.authenticateS3(r, asked.Bucket)
	if e != nil {
		return s3.Answer{}, fault, e
	}
	if fault != nil && fault.Code != "" {
		return s3.Answer{}, fault, &s3.Error{Status: fault.Status, Code: fault.Code, Message: fault.Message}
	}
	rate := "s3 read"
	if asked.Writes() {
		rate = "s3 write"
	}
	if s.draw([]string{rate}, 1, asked.Action, now) != nil {
		return s3.Answer{}, fault, &s3.Error{
			Status: http.StatusServiceUnavailable, Code: "SlowDown", Message: "Please reduce your request rate.",
		}
	}
	out, e := s.s3.Answer(s3.Request{
		Call: asked, Header: r.Header, Body: body, Now: now,
		May: func(action, resource string) bool { return s.allowed(who, action, resource) },
	})
	if e == nil && asked.Writes() {
		s.settle(now)
	}
	return out, fault, e
}

// authenticateS3 is authenticate in S3's words (S3 API, "Error responses"). The signature
// is verified of a task's own credentials, which a program in it signs with by itself.
func (s *Server) authenticateS3(r *http.Request, bucket string) (Principal, *s3.Error) {
	who, e := s.authenticateIn(r, "s3", s.s3.Region(bucket))
	switch {
	case e == nil:
	case e.Code == "InvalidSignatureException":
		return "", &s3.Error{
			Status: http.StatusBadRequest, Code: "AuthorizationHeaderMalformed",
			Message: "The authorization header is malformed; the region is wrong; expecting '" + s.s3.Region(bucket) + "'",
		}
	default:
		return "", &s3.Error{
			Status: http.StatusForbidden, Code: "InvalidAccessKeyId",
			Message: "The AWS Access Key Id you provided does not exist in our records.",
		}
	}
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(credential, "/")
	if t := s.byKey[key]; t != nil && !s3.Signed(r, t.secretKey()) {
		return "", &s3.Error{
			Status: http.StatusForbidden, Code: "SignatureDoesNotMatch",
			Message: "The request signature we calculated does not match the signature you provided. Check your key and " +
				"signing method.",
		}
	}
	return who, nil
}

// Objects are all that is in the buckets.
func (s *Server) Objects() []s3.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.s3.Objects())
}

// Versions counts what is left in buckets with versions of what was overwritten or deleted.
func (s *Server) Versions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s3.Versions(time.Now())
}
