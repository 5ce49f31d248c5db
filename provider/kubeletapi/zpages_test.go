package kubeletapi

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestZPages are what a kubelet's are, for those with their right alone: nodes/proxy is not
// enough.
func TestZPages(t *testing.T) {
	r := &reviews{
		tokens: map[string]string{"t": "u", "proxy": "p"},
		rights: map[string]map[string]bool{"u": {"statusz": true, "configz": true, "metrics": true}, "p": {"proxy": true}},
	}
	s := serve(
		t, &fakeEngine{}, r, func(c *Config) { c.FlagZ = map[string]string{"node-name": "n1", "healthz-port": "0"} },
	)
	call, proxy := s.caller(t, nil, "t"), s.caller(t, nil, "proxy")
	for _, tt := range []struct {
		path, accept, kind string
		code               int
		want               string // a pattern
	}{
		{
			"/flagz", "", "text/plain; charset=utf-8", 200,
			`(?s)^\nkubelet flagz\n.*\nhealthz-port[:= ]+0\nnode-name[:= ]+n1\n$`,
		},
		{"/flagz", "*/*", "text/plain; charset=utf-8", 200, `kubelet flagz`},
		{
			"/flagz", "application/json;as=Flagz;v=v1beta1;g=config.k8s.io",
			"application/json;g=config.k8s.io;v=v1beta1;as=Flagz", 200,
			`^{"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"kubelet"},"flags":{"healthz-port":"0","node-name":"n1"}}`,
		},
		{"/flagz", "application/json", "", http.StatusNotAcceptable, ``},
		{
			"/statusz", "", "text/plain; charset=utf-8", 200,
			`(?s)kubelet statusz\n.*Paths[:= ]+/configz /flagz /healthz /metrics\n$`,
		},
		{
			"/statusz", "application/json;as=Statusz;v=v1beta1;g=config.k8s.io",
			"application/json;g=config.k8s.io;v=v1beta1;as=Statusz", 200,
			`"binaryVersion":"1\.36[.0-9]*".*"paths":\["/configz","/flagz","/healthz","/metrics"\]`,
		},
		{
			"/statusz", "application/yaml;as=Statusz;v=v1beta1;g=config.k8s.io",
			"application/yaml;g=config.k8s.io;v=v1beta1;as=Statusz", 200, `(?m)^kind: Statusz$`,
		},
	} {
		resp := call("GET " + tt.path + " " + tt.accept)
		text := body(t, resp)
		if resp.StatusCode != tt.code || tt.kind != "" && resp.Header.Get("Content-Type") != tt.kind ||
			!regexp.MustCompile(tt.want).MatchString(text) {
			t.Errorf("%s, Accept %q: %s %q:\n%s", tt.path, tt.accept, resp.Status, resp.Header.Get("Content-Type"), text)
		}
		if got := proxy(tt.path).StatusCode; got != http.StatusForbidden {
			t.Errorf("%s with nodes/proxy alone: %d", tt.path, got)
		}
	}
	if text := body(t, call("/metrics")); !strings.Contains(text, `path="flagz"`) ||
		!strings.Contains(text, `path="statusz"`) {
		t.Errorf("requests are not counted under their paths: %s", text)
	}
	var got struct{ StartTime string }
	if err := json.Unmarshal(
		[]byte(body(t, call("GET /statusz application/json;as=Statusz;v=v1beta1;g=config.k8s.io"))), &got,
	); err != nil || got.StartTime <= "2020" {
		t.Errorf("start time %q (%v)", got.StartTime, err)
	}
}
