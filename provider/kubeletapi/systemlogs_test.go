package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/burstlet/burstlet/backend"
)

// hostLogs are the logs of a host that knows a directory d, a file f and a page p.
func hostLogs(_ context.Context, q backend.SystemLogQuery) (io.ReadCloser, error) {
	text := ""
	switch {
	case q.Services != nil:
		text = fmt.Sprintf("%v since %v", q.Services, q.Since.IsZero())
		if q.TailLines != nil {
			text += fmt.Sprint(" tail ", *q.TailLines)
		}
	case q.Path == "" || q.Path == "d/":
		text = "a&b\x00e/\x00"
	case q.Path == "f" || q.Path == "d/f":
		text = "words"
	case q.Path == "p":
		text = "<html><script>alert(1)</script>"
	case q.Path == "d":
		return nil, backend.Errorf(backend.ErrInvalid, "read d: %w", syscall.EISDIR)
	case q.Path == "out":
		return nil, backend.Errorf(backend.ErrInvalid, "read out: it leads out")
	case q.Path == "lost":
		return nil, backend.Errorf(backend.ErrUnavailable, "the host cannot be reached")
	default:
		return nil, backend.Errorf(backend.ErrNotFound, "read %s: no such file", q.Path)
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// TestSystemLogs answers with a kubelet's words and statuses, to those with its right alone.
func TestSystemLogs(t *testing.T) {
	engine := &fakeEngine{}
	engine.systemLog = hostLogs
	r := &reviews{
		tokens: map[string]string{"t": "u", "proxy": "p"},
		rights: map[string]map[string]bool{"u": {"log": true}, "p": {"proxy": true}},
	}
	query := serve(t, engine, r, func(c *Config) { c.SystemLogHandler, c.SystemLogQuery = true, true })
	call, proxy := query.caller(t, nil, "t"), query.caller(t, nil, "proxy")
	files := serve(t, engine, r, func(c *Config) { c.SystemLogHandler = true }).caller(t, nil, "t")
	off := serve(t, engine, r, nil).caller(t, nil, "t")
	const page = "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n" +
		"<a href=\"a&b\">a&amp;b</a>\n<a href=\"e/\">e/</a>\n</pre>\n"
	for _, tt := range []struct {
		call func(string) *http.Response
		path string
		code int
		want string
	}{
		{call, "", 200, page},
		{call, "d/", 200, page},
		{call, "d", 301, ""},
		{call, "f", 200, "words"},
		{call, "p", 200, "<html><script>alert(1)</script>"},
		{call, "none", 404, "no such file"},
		{call, "out", 400, "it leads out"},
		{call, "lost", 503, "the host cannot be reached"},
		{call, "?query=containerd", 200, "[containerd] since true"},
		{call, "?query=a&query=b@1.x&tailLines=10&sinceTime=2026-01-02T03:04:05Z", 200, "[a b@1.x] since false tail 10"},
		{call, "?query=/f", 200, "words"},
		{call, `?query=d\f`, 200, "words"},
		{call, "?query=d/", 200, page},
		{call, "?query=/none", 406, `query: Invalid value: ["/none"]: read none: no such file`},
		{call, "?query=/lost", 503, "the host cannot be reached"},
		{call, "f?query=a", 406, "path not allowed in query mode"},
		{call, "?query=%20", 400, `query: Invalid value: [" "]: may not be empty`},
		{call, "?query=a&sinceTime=now", 400, `sinceTime: Invalid value: "now": invalid time format`},
		{call, "?query=a&untilTime=now", 400, `untilTime: Invalid value: "now": invalid time format`},
		{call, "?query=a&boot=x", 400, `boot: Invalid value: "x": strconv.Atoi: parsing "x": invalid syntax`},
		{call, "?query=a&tailLines=x", 400, `tailLines: Invalid value: "x": strconv.Atoi: parsing "x": invalid syntax`},
		{call, "?tailLines=1", 406, "query: Required value: cannot be empty with options"},
		{call, "?query=a&query=/f", 406, `query: Invalid value: "[/f], [a]": cannot specify a file and service`},
		{call, "?query=/f&query=/g", 406, `query: Invalid value: ["/f","/g"]: cannot specify more than one file`},
		{call, "?query=/f&tailLines=1", 406, `query: Invalid value: ["/f"]: cannot specify file with options`},
		{call, "?query=a%26b", 406, `query: Invalid value: "a&b": input contains unsupported characters`},
		{call, "?query=" + strings.Repeat("a", 257), 406, "length must be less than 256"},
		{call, "?query=a&query=b&query=c&query=d&query=e", 406, "query: Too many: 5: must have at most 4 items"},
		{call, "?query=a&boot=1", 406, "boot: Invalid value: 1: must be less than 1"},
		{call, "?query=a&tailLines=100001", 406, "tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive"},
		{call, "?query=a&pattern=(", 406, "pattern: Invalid value: \"(\": error parsing regexp: missing closing ): `(`"},
		{call, "?query=a&sinceTime=2026-01-02T03:04:05Z&untilTime=2026-01-01T03:04:05Z", 406, "must be after `sinceTime`"},
		{files, "?query=containerd", 200, page},
		{files, "f?tailLines=x", 200, "words"},
		{off, "", 405, "logs endpoint is disabled."},
		{off, "f", 405, "logs endpoint is disabled."},
		{proxy, "f", 403, ""},
	} {
		resp := tt.call("GET /logs/" + tt.path)
		if text := body(t, resp); resp.StatusCode != tt.code || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %d %q, want %d %q", tt.path, resp.StatusCode, text, tt.code, tt.want)
		}
		if to := resp.Header.Get("Location"); tt.code == 301 && to != "d/" {
			t.Errorf("%s leads to %s", tt.path, to)
		}
		if kind := resp.Header.Get("Content-Type"); tt.path == "p" && kind != "text/plain; charset=utf-8" {
			t.Errorf("a page was sent as %s", kind)
		}
	}
}

// TestSystemLogsWithoutAHost: a backend without a host says so.
func TestSystemLogsWithoutAHost(t *testing.T) {
	engine := &fakeEngine{}
	engine.systemLog = func(context.Context, backend.SystemLogQuery) (io.ReadCloser, error) {
		return nil, backend.Errorf(backend.ErrUnsupported, "the ecs backend does not lend logs of a host")
	}
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: map[string]map[string]bool{"u": {"log": true}}}
	call := serve(t, engine, r, func(c *Config) { c.SystemLogHandler, c.SystemLogQuery = true, true }).caller(t, nil, "t")
	for _, path := range []string{"f", "?query=a", "?query=/f"} {
		resp := call("GET /logs/" + path)
		if text := body(t, resp); resp.StatusCode != http.StatusNotImplemented || !strings.Contains(text, "the ecs backend") {
			t.Errorf("%s: %d %q", path, resp.StatusCode, text)
		}
	}
}

// TestSystemLogBreaksOff: what ends with an error does not look whole.
func TestSystemLogBreaksOff(t *testing.T) {
	engine := &fakeEngine{}
	engine.systemLog = func(context.Context, backend.SystemLogQuery) (io.ReadCloser, error) {
		broken := io.MultiReader(strings.NewReader(strings.Repeat("x", 100<<10)), &failingReader{})
		return io.NopCloser(broken), nil
	}
	r := &reviews{tokens: map[string]string{"t": "u"}, rights: map[string]map[string]bool{"u": {"log": true}}}
	call := serve(t, engine, r, func(c *Config) { c.SystemLogHandler = true }).caller(t, nil, "t")
	resp := call("GET /logs/f")
	if text, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("%d bytes, and no error", len(text))
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

type failingReader struct{}

func (*failingReader) Read([]byte) (int, error) { return 0, errors.New("the link broke") }
