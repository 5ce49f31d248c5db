package payload

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/burstlet/burstlet/backend/ecs/intask"
)

func TestWhatErrorsOfStoresComeTo(t *testing.T) {
	for code, want := range map[string]string{
		"ResourceNotFoundException": "NotFound", "ResourceExistsException": "Exists", "InternalServiceError": "Unavailable",
		"InvalidRequestException": "", "InvalidParameterException": "", "EncryptionFailure": "", "DecryptionFailure": "",
		"PreconditionNotMetException": "", "InvalidNextTokenException": "",
		"ThrottlingException": "Throttled", "AccessDeniedException": "Denied", "LimitExceededException": "Capacity",
	} {
		if got := classOf(classifySecret(awsError(code))); got != want && (want != "" || got != classOf(errors.New("x"))) {
			t.Errorf("a secret: %s: %s, want %s", code, got, want)
		}
	}
	for code, want := range map[string]string{
		"NoSuchKey": "NotFound", "NotFound": "NotFound", "SlowDown": "Throttled", "AccessDenied": "Denied",
		"NoSuchBucket": "", "PermanentRedirect": "", "AuthorizationHeaderMalformed": "", "ValidationException": "",
	} {
		err := classifyObject(awsError(code))
		if got := classOf(err); got != want && (want != "" || got != classOf(errors.New("x"))) {
			t.Errorf("an object: %s: %s, want %s", code, got, want)
		}
		if advised := strings.Contains(err.Error(), "payloadBucket"); advised != slices.Contains(
			[]string{"NoSuchBucket", "PermanentRedirect", "AuthorizationHeaderMalformed"}, code) {
			t.Errorf("%v", err)
		}
	}
	if classifySecret(nil) != nil || classifyObject(nil) != nil {
		t.Error("nil is an error")
	}
}

// Where listing is not granted everywhere, S3 says of an object that is not there that
// reading it is denied: a listing tells the two apart.
func TestWhetherAnObjectIsThere(t *testing.T) {
	name := intask.ObjectName("b", "k")
	for what, tc := range map[string]struct {
		get, list error
		there     bool
		want      string
	}{
		"there":                      {there: true},
		"not there":                  {want: "NotFound"},
		"denied, and not there":      {get: awsError("AccessDenied"), want: "NotFound"},
		"denied, and there":          {get: awsError("AccessDenied"), there: true, want: "Denied"},
		"denied, as listing is":      {get: awsError("AccessDenied"), list: awsError("AccessDenied"), want: "Denied"},
		"away":                       {get: errors.New("reset"), want: "Unavailable"},
		"one that is not burstlet's": {there: true, want: "large"},
	} {
		h := newHeld()
		if tc.there {
			h.values["k"] = "v"
		}
		if tc.want == "large" {
			h.values["k"] = strings.Repeat("v", intask.MaxObject+1)
		}
		h.objects["k"] = true
		h.errors["GetObject"], h.errors["ListObjects"] = tc.get, tc.list
		body, err := newObjectStore(h, Place{}, "node").read(t.Context(), name)
		switch {
		case tc.want == "" && (err != nil || string(body) != "v"):
			t.Errorf("%s: %q, %v", what, body, err)
		case tc.want == "large" && (err == nil || !strings.Contains(err.Error(), "it is none of burstlet's: delete it")):
			t.Errorf("%s: %v", what, err)
		case tc.want != "" && tc.want != "large" && classOf(err) != tc.want:
			t.Errorf("%s: %v (%s)", what, err, classOf(err))
		}
	}
}
