package identity

import (
	"crypto/tls"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ttl is the gauge of the life that is left of a certificate.
func ttl(name, help string, current func() *tls.Certificate) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		cert := current()
		if cert == nil || cert.Leaf == nil {
			return math.Inf(1)
		}
		return math.Trunc(time.Until(cert.Leaf.NotAfter).Seconds())
	})
}

func clientTTL(current func() *tls.Certificate) prometheus.Collector {
	return ttl("kubelet_certificate_manager_client_ttl_seconds",
		"Gauge of the TTL (time-to-live) of the Kubelet's client certificate. "+
			"The value is in seconds until certificate expiry (negative if already expired). "+
			"If client certificate is invalid or unused, the value will be +INF.", current)
}

func serverTTL(current func() *tls.Certificate) prometheus.Collector {
	return ttl("kubelet_certificate_manager_server_ttl_seconds",
		"Gauge of the shortest TTL (time-to-live) of the Kubelet's serving certificate. "+
			"The value is in seconds until certificate expiry (negative if already expired). "+
			"If serving certificate is invalid or unused, the value will be +INF.", current)
}

func clientRenewErrors() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kubelet_certificate_manager_client_expiration_renew_errors",
		Help: "Counter of certificate renewal errors.",
	})
}

func serverRenewErrors() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kubelet_server_expiration_renew_errors",
		Help: "Counter of certificate renewal errors.",
	})
}

func serverRotationAge() prometheus.Histogram {
	const day = 86400
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "kubelet_certificate_manager_server_rotation_seconds",
		Help:    "Histogram of the number of seconds the previous certificate lived before being rotated.",
		Buckets: []float64{60, 3600, 14400, day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day, 1440 * day},
	})
}

func register(reg prometheus.Registerer, collectors ...prometheus.Collector) error {
	if reg == nil {
		return nil
	}
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("register metrics of certificates: %w", err)
		}
	}
	return nil
}
