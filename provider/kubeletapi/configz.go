package kubeletapi

import (
	"crypto/tls"
	"net"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// maskedHeader stands for the value of a header that may be a credential, as in a
// kubelet's configz.
const maskedHeader = "<masked>"

// configz answers with the configuration in a kubelet's terms.
func (s *Server) configz(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, r, map[string]*kubeletv1beta1.KubeletConfiguration{"kubeletconfig": s.kubeletConfig()})
}

// kubeletConfig is what the node's configuration says, and what this server knows
// better. It holds no secret.
func (s *Server) kubeletConfig() *kubeletv1beta1.KubeletConfiguration {
	c := &kubeletv1beta1.KubeletConfiguration{}
	if s.cfg.ConfigZ != nil {
		c = s.cfg.ConfigZ.DeepCopy()
	}
	c.TypeMeta = metav1.TypeMeta{Kind: "KubeletConfiguration", APIVersion: kubeletv1beta1.SchemeGroupVersion.String()}
	c.EnableServer = new(true)
	c.EnableSystemLogHandler, c.EnableSystemLogQuery = new(s.cfg.SystemLogHandler), new(s.cfg.SystemLogQuery)
	if host, _, err := net.SplitHostPort(s.cfg.Address); err == nil {
		c.Address = host
	}
	c.Port = s.Port()
	if c.Port == 0 {
		c.Port = portOf(s.cfg.Address)
	}
	c.TLSCertFile, c.TLSPrivateKeyFile = s.cfg.CertFile, s.cfg.KeyFile
	c.TLSMinVersion = "VersionTLS12"
	c.TLSCipherSuites = nil
	for _, suite := range tlsConfig(s.certs).CipherSuites {
		c.TLSCipherSuites = append(c.TLSCipherSuites, tls.CipherSuiteName(suite))
	}
	c.ServerTLSBootstrap = s.cfg.Certificate != nil
	c.Authentication = kubeletv1beta1.KubeletAuthentication{
		X509: kubeletv1beta1.KubeletX509Authentication{ClientCAFile: s.cfg.ClientCAFile},
		Webhook: kubeletv1beta1.KubeletWebhookAuthentication{
			Enabled: new(!s.cfg.DisableTokenReview), CacheTTL: metav1.Duration{Duration: tokenTTL},
		},
		Anonymous: kubeletv1beta1.KubeletAnonymousAuthentication{Enabled: new(false)},
	}
	c.Authorization.Mode = kubeletv1beta1.KubeletAuthorizationModeWebhook
	if s.cfg.AlwaysAllow {
		c.Authorization.Mode = kubeletv1beta1.KubeletAuthorizationModeAlwaysAllow
	}
	c.Authorization.Webhook = kubeletv1beta1.KubeletWebhookAuthorization{
		CacheAuthorizedTTL:   metav1.Duration{Duration: allowTTL},
		CacheUnauthorizedTTL: metav1.Duration{Duration: denyTTL},
	}
	c.StreamingConnectionIdleTimeout = metav1.Duration{Duration: s.cfg.StreamIdleTimeout}
	for _, values := range c.StaticPodURLHeader {
		for i := range values {
			values[i] = maskedHeader
		}
	}
	return c
}

func portOf(address string) int32 {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}
