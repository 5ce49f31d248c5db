package config

// Shutdown says how the process ends on SIGTERM.
type Shutdown struct {
	// FlushTimeout bounds the writing of the last statuses; default 10s.
	FlushTimeout Duration `json:"flushTimeout"`
	// Mode is "leave", so that pods stay on the remote and are found again, or
	// "drain", so that they are ended as on a machine that is shut down; default
	// leave. It must be leave with leaderElection, where the next leader takes the
	// pods over.
	Mode string `json:"mode"`
	// GracePeriod is how long draining may take, the kubelet's shutdownGracePeriod;
	// default 30s. The process needs GracePeriod + FlushTimeout before it is killed.
	GracePeriod Duration `json:"gracePeriod"`
	// GracePeriodCriticalPods is the last part of it, in which pods of priority
	// 2000000000 and above are ended (shutdownGracePeriodCriticalPods); default 10s.
	GracePeriodCriticalPods Duration `json:"gracePeriodCriticalPods"`
}
