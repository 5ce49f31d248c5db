package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/burstlet/burstlet/cmd/burstlet/config"
)

// noPidsLimit is how a kubelet says that pods have no limit of processes.
const noPidsLimit = int64(-1)

// kubeletConfig is the configuration in a kubelet's terms, for /configz. What it
// leaves out has no counterpart, or is the kubelet API's own to say.
func kubeletConfig(cfg config.Configuration) *kubeletv1beta1.KubeletConfiguration {
	c := &kubeletv1beta1.KubeletConfiguration{
		RotateCertificates: cfg.BootstrapKubeconfig != "",
		ClusterDNS:         cfg.ClusterDNS, ClusterDomain: cfg.ClusterDomain,
		KubeAPIQPS: new(int32(cfg.Client.QPS)), KubeAPIBurst: int32(cfg.Client.Burst), //nolint:gosec // validated
		EventRecordQPS:        new(int32(eventQPS)),
		EventBurst:            eventBurst,
		HealthzBindAddress:    cfg.HealthzBindAddress,
		HealthzPort:           new(int32(cfg.HealthzPort)), //nolint:gosec // a port
		StaticPodPath:         cfg.Pods.StaticPodPath,
		StaticPodURL:          cfg.Pods.StaticPodURL,
		AllowedUnsafeSysctls:  cfg.Pods.AllowedUnsafeSysctls,
		MaxParallelImagePulls: new(int32(cfg.Pods.MaxParallelImagePulls)), //nolint:gosec // validated
		SerializeImagePulls:   new(cfg.Pods.MaxParallelImagePulls == 1),

		ImageGCHighThresholdPercent: new(int32(cfg.Images.GCHighThresholdPercent)), //nolint:gosec // a percentage
		ImageGCLowThresholdPercent:  new(int32(cfg.Images.GCLowThresholdPercent)),  //nolint:gosec // a percentage
		ImageMinimumGCAge:           metav1.Duration{Duration: cfg.Images.MinimumGCAge.Duration},
		ImageMaximumGCAge:           metav1.Duration{Duration: cfg.Images.MaximumGCAge.Duration},
		NodeStatusMaxImages:         new(int32(cfg.Images.NodeStatusMaxImages)), //nolint:gosec // never so many images

		EvictionHard: cfg.Eviction.Hard, EvictionSoft: cfg.Eviction.Soft,
		EvictionSoftGracePeriod: cfg.Eviction.SoftGracePeriod,
		EvictionMinimumReclaim:  cfg.Eviction.MinimumReclaim, EvictionMaxPodGracePeriod: cfg.Eviction.MaxPodGracePeriod,
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: cfg.Eviction.Policy().PressureTransitionPeriod},
	}
	if pods := cfg.Node.Capacity.Pods; pods != nil {
		c.MaxPods = int32(pods.Value()) //nolint:gosec // as many do not fit
	}
	cri := cfg.Backend.CRI
	if cfg.Backend.Type != config.BackendCRI {
		cri = nil
	}
	if cri != nil {
		c.SeccompDefault, c.PodPidsLimit = new(cri.SeccompDefault), new(cri.PodPidsLimit)
		if cri.PodPidsLimit == 0 {
			c.PodPidsLimit = new(noPidsLimit)
		}
	}
	if cri != nil && len(cri.ShutdownGroups()) > 0 {
		c.ShutdownGracePeriod = metav1.Duration{Duration: cri.ShutdownGracePeriod.Duration}
		c.ShutdownGracePeriodCriticalPods = metav1.Duration{Duration: cri.ShutdownGracePeriodCriticalPods.Duration}
		for _, group := range cri.ShutdownGracePeriodByPodPriority {
			c.ShutdownGracePeriodByPodPriority = append(
				c.ShutdownGracePeriodByPodPriority, kubeletv1beta1.ShutdownGracePeriodByPodPriority(group),
			)
		}
	} else if cfg.Shutdown.Mode == config.ShutdownDrain {
		c.ShutdownGracePeriod = metav1.Duration{Duration: cfg.Shutdown.GracePeriod.Duration}
		c.ShutdownGracePeriodCriticalPods = metav1.Duration{Duration: cfg.Shutdown.GracePeriodCriticalPods.Duration}
	}
	return c
}
