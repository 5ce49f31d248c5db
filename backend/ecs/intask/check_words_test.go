package intask

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burstlet/burstlet/backend/httpget"
)

// TestHealthInTheKubeletsWords: what the end of a gRPC call makes of a probe.
func TestHealthInTheKubeletsWords(t *testing.T) {
	const implement = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
	for name, tt := range map[string]struct {
		status  int
		err     error
		late    bool
		verdict verdict
		output  string
	}{
		"serving":              {1, nil, false, success, "service healthy"},
		"serving, at the last": {1, nil, true, success, "service healthy"},
		"unknown":              {0, nil, false, failed, `service unhealthy (responded with "UNKNOWN")`},
		"not serving":          {2, nil, false, failed, `service unhealthy (responded with "NOT_SERVING")`},
		"service unknown":      {3, nil, false, failed, `service unhealthy (responded with "SERVICE_UNKNOWN")`},
		"a later status":       {4, nil, false, failed, `service unhealthy (responded with "4")`},
		"below all":            {-1, nil, false, failed, `service unhealthy (responded with "-1")`},
		"too late":             {0, io.EOF, true, failed, "timeout: health rpc did not complete within 2s"},
		"the server's limit": {
			0, &grpcError{grpcDeadline, "x"}, false, failed, "timeout: health rpc did not complete within 2s",
		},
		"not implemented": {
			0, &grpcError{grpcUnimplemented, "unknown service"}, false, failed, implement + "unknown service",
		},
		"refused": {
			0, fmt.Errorf("ask: %w", &grpcError{7, "no"}), false, failed,
			"error: health rpc probe failed: ask: rpc error: code = PermissionDenied desc = no",
		},
		"a code of later": {
			0, &grpcError{17, "x"}, false, failed, "error: health rpc probe failed: rpc error: code = Code(17) desc = x",
		},
		"a code below all": {
			0, &grpcError{-1, "x"}, false, failed, "error: health rpc probe failed: rpc error: code = Code(-1) desc = x",
		},
		"no answer": {0, io.EOF, false, failed, "error: health rpc probe failed: EOF"},
	} {
		if v, output := judgeHealth(tt.status, tt.err, tt.late, 2*time.Second); v != tt.verdict || output != tt.output {
			t.Errorf("%s: %v, %q; want %v, %q", name, v, output, tt.verdict, tt.output)
		}
	}
}

// TestTheStatusOfACall: it stands in the trailer, among the headers where there is no body,
// and a server that speaks no gRPC has none.
func TestTheStatusOfACall(t *testing.T) {
	of := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set("Grpc-"+pairs[i], pairs[i+1])
		}
		return h
	}
	for name, tt := range map[string]struct {
		code            int
		header, trailer http.Header
		want            error
	}{
		"well":                 {200, nil, of("Status", "0"), nil},
		"well, without a body": {200, of("Status", "0"), nil, nil},
		"the trailer counts": {
			200, of("Status", "0"), of("Status", "5", "Message", "unknown%20service"), &grpcError{5, "unknown service"},
		},
		"among the headers": {200, of("Status", "12", "Message", "x"), nil, &grpcError{grpcUnimplemented, "x"}},
		"HTTP alone": {503, nil, nil, &grpcError{
			grpcUnknown, "unexpected HTTP status code received from server: 503 (Service Unavailable)",
		}},
		"HTTP alone, no such path": {
			404, nil, nil, &grpcError{grpcUnimplemented, "unexpected HTTP status code received from server: 404 (Not Found)"},
		},
		"none at all":               {200, nil, nil, &grpcError{grpcInternal, "malformed grpc-status"}},
		"none that can be read":     {200, nil, of("Status", "well"), &grpcError{grpcInternal, "malformed grpc-status"}},
		"its own over that of HTTP": {500, nil, of("Status", "0"), nil},
	} {
		got := grpcStatus(&http.Response{StatusCode: tt.code, Header: tt.header, Trailer: tt.trailer})
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	for in, want := range map[string]string{
		"": "", "plain": "plain", "a%20b": "a b", "%41%42": "AB", "50%": "50%", "%4": "%4", "%zz": "%zz", "%25%": "%%",
		"%C3%A4": "ä", "%2541": "%41",
	} {
		if got := unescapeMessage(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestHealthMessages: the two messages as they travel, with what this version does not know.
func TestHealthMessages(t *testing.T) {
	framed := func(message ...byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	}
	for service, want := range map[string][]byte{
		"": framed(), "a": framed(0x0a, 1, 'a'),
		strings.Repeat("a", 200): framed(append([]byte{0x0a, 0xc8, 0x01}, strings.Repeat("a", 200)...)...),
	} {
		if diff := cmp.Diff(want, healthRequest(service)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", service, diff)
		}
	}
	for name, tt := range map[string]struct {
		body []byte
		want int // -1: it is none
	}{
		"none is UNKNOWN": {framed(), 0},
		"serving":         {framed(0x08, 1), 1},
		"the last counts": {framed(0x08, 1, 0x08, 2), 2},
		"of many bytes":   {framed(0x08, 0x80, 0x01), 128},
		"below all":       {framed(0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01), -1},
		"other fields": {
			framed(0x10, 7, 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x22, 2, 'h', 'i', 0x2d, 1, 2, 3, 4, 0x08, 1), 1,
		},
		"another type of that number": {framed(0x08, 1, 0x0a, 1, 1), 1},
		"no header":                   {[]byte{0, 0}, -1},
		"compressed":                  {append([]byte{1}, framed(0x08, 1)[1:]...), -1},
		"longer than it says":         {append(framed(0x08, 1), 0), -1},
		"shorter than it says":        {framed(0x08, 1)[:6], -1},
		"no value":                    {framed(0x08), -1},
		"a key without an end":        {framed(0x80), -1},
		"text that is cut":            {framed(0x12, 9, 'x'), -1},
		"text without a length":       {framed(0x12, 0x80), -1},
		"a fixed value that is cut":   {framed(0x19, 1, 2), -1},
		"a group":                     {framed(0x0b), -1},
	} {
		got, err := healthStatus(tt.body)
		if name == "below all" {
			if got != -1 || err != nil {
				t.Errorf("%s: %d, %v", name, got, err)
			}
		} else if (err != nil) != (tt.want < 0) || err == nil && got != tt.want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, tt.want)
		}
	}
}

// TestWhereChecksGo: to the task unless they name a host; and what cannot be asked says so.
func TestWhereChecksGo(t *testing.T) {
	for _, tt := range []struct {
		own, host string
		port      int32
		want      string
	}{
		{"10.0.0.1", "", 80, "10.0.0.1:80"},
		{"10.0.0.1", "example.org", 65535, "example.org:65535"},
		{"fd00::1", "", 80, "[fd00::1]:80"},
		{"", "127.0.0.1", 80, "127.0.0.1:80"},
		{"", "", 80, "the address of the task is not known"},
		{"10.0.0.1", "", 0, "invalid port number: 0"},
		{"10.0.0.1", "", 65536, "invalid port number: 65536"},
		{"10.0.0.1", "", -1, "invalid port number: -1"},
	} {
		got, err := checker{address: tt.own}.at(tt.host, tt.port)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q from %q, port %d: %s, want %s", tt.host, tt.own, tt.port, got, tt.want)
		}
	}
	if v, _, err := (checker{}).check(t.Context(), Handler{}, time.Second); v != unknown || !errors.Is(err, errHandler) {
		t.Errorf("no handler: %v, %v", v, err)
	}
}

// TestWhatAnHTTPGetSends: the request that a kubelet would make, to the task unless it names
// a host.
func TestWhatAnHTTPGetSends(t *testing.T) {
	get := HTTPGet{
		Scheme: "HTTPS", Port: 80, Path: "/a", Headers: []Header{{"host", "virtual"}, {"x-a", "1"}, {"X-A", "2"}},
	}
	req, err := checker{address: "10.0.0.1"}.request(t.Context(), &get, httpget.ForProbe)
	must(t, err)
	if req.URL.String() != "https://10.0.0.1:80/a" || req.Host != "virtual" {
		t.Errorf("%s of %q", req.URL, req.Host)
	}
	want := http.Header{"Host": {"virtual"}, "X-A": {"1", "2"}, "User-Agent": {"kube-probe/1.36"}, "Accept": {"*/*"}}
	if diff := cmp.Diff(want, req.Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if _, err := (checker{}).request(t.Context(), &HTTPGet{Port: 80}, httpget.ForProbe); err == nil {
		t.Error("a request to nowhere")
	}
}

// TestExecChecks: the exit code decides; a command that does not end in time has failed, one
// that could not be run says nothing of the container.
func TestExecChecks(t *testing.T) {
	argv := Handler{Exec: []string{"check", "it"}}
	for name, tt := range map[string]struct {
		output  func(ctx context.Context, argv []string) (ran, error)
		verdict verdict
		says    string
		errs    bool
	}{
		"well":  {func(context.Context, []string) (ran, error) { return ran{}, nil }, success, "", false},
		"badly": {func(context.Context, []string) (ran, error) { return ran{code: 3}, nil }, failed, "", false},
		"never": {func(ctx context.Context, _ []string) (ran, error) {
			<-ctx.Done()
			return ran{}, ctx.Err()
		}, failed, `command timed out: "check it" timed out after 1ms`, false},
		"not run": {
			func(context.Context, []string) (ran, error) { return ran{}, errors.New("no such file") }, unknown, "", true,
		},
	} {
		timeout := patience
		if name == "never" {
			timeout = time.Millisecond
		}
		v, says, err := checker{output: tt.output}.check(t.Context(), argv, timeout)
		if v != tt.verdict || says != tt.says || (err != nil) != tt.errs {
			t.Errorf("%s: %v, %q, %v", name, v, says, err)
		}
	}
}

// TestThresholds: a finding counts once it came often enough in a row, and is told once.
func TestThresholds(t *testing.T) {
	for _, tt := range []struct{ found, told string }{
		// s: success, f: failure; upper case where the outcome changes.
		{"s", "S"},
		{"ss", "Ss"},
		{"fff", "ffF"},
		{"ffff", "ffFf"},
		{"ffsff", "ffSff"},
		{"sffsfff", "SffsffF"},
		{"fffsf", "ffFSf"},
	} {
		c, told := counter{probe: &Probe{}}, ""
		for _, r := range tt.found {
			v := success
			if r == 'f' {
				v = failed
			}
			if c.count(v) {
				r += 'A' - 'a'
			}
			told += string(r)
		}
		if told != tt.told {
			t.Errorf("%s: %s, want %s", tt.found, told, tt.told)
		}
	}
	for _, tt := range []struct {
		probe         Probe
		success, fail int
		period        time.Duration
	}{
		{Probe{}, 1, 3, 10 * time.Second},
		{Probe{SuccessThreshold: 2, FailureThreshold: 5, Period: 7}, 2, 5, 7 * time.Second},
		{Probe{SuccessThreshold: -1, FailureThreshold: 0, Period: -3}, 1, 3, 10 * time.Second},
	} {
		if s, f, p := tt.probe.threshold(success), tt.probe.threshold(failed), tt.probe.period(); s != tt.success ||
			f != tt.fail || p != tt.period {
			t.Errorf("%+v: %d, %d, %v", tt.probe, s, f, p)
		}
	}
}
