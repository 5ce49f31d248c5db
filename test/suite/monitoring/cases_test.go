package monitoring

// alertCase is one alert: the series, in promtool's notation with one value a minute,
// with which it fires at a time, and those with which it does not.
type alertCase struct {
	alert string
	at    string
	// labels are those of the alert that fires, beside its name and severity.
	labels       map[string]string
	fires, quiet map[string]string
}

var onNode = map[string]string{"node": "n"}

func with(name, value string) map[string]string { return map[string]string{"node": "n", name: value} }

var nodeCases = []alertCase{
	{
		alert: "BurstletAbsent", at: "15m",
		quiet: map[string]string{`up{job="burstlet",instance="a"}`: "0x90"},
	},
	{
		alert: "BurstletDown", at: "15m", labels: map[string]string{"instance": "a"},
		fires: map[string]string{`up{job="burstlet",instance="a"}`: "0x90", `up{job="burstlet",instance="b"}`: "1x90"},
		quiet: map[string]string{`up{job="burstlet",instance="a"}`: "0x3 1x90", `up{job="other",instance="b"}`: "0x90"},
	},
	{
		alert: "BurstletNodeUnserved", at: "15m", labels: onNode,
		fires: map[string]string{
			`burstlet_node_state{job="burstlet",node="n",state="running",instance="a"}`: "0x90",
			`burstlet_node_state{job="burstlet",node="n",state="standby",instance="a"}`: "1x90",
		},
		quiet: map[string]string{ // one leads, the other stands by
			`burstlet_node_state{job="burstlet",node="n",state="running",instance="a"}`: "0x90",
			`burstlet_node_state{job="burstlet",node="n",state="running",instance="b"}`: "1x90",
		},
	},
	{
		alert: "BurstletNodeFailing", at: "30m", labels: onNode,
		fires: map[string]string{`burstlet_node_failures_total{job="burstlet",node="n"}`: "0+1x90"},
		quiet: map[string]string{`burstlet_node_failures_total{job="burstlet",node="n"}`: "0x20 1x70"},
	},
	{
		alert: "BurstletNodeMoves", at: "80m", labels: onNode,
		fires: map[string]string{`burstlet_node_terms_total{job="burstlet",node="n"}`: "0+1x90"},
		quiet: map[string]string{`burstlet_node_terms_total{job="burstlet",node="n"}`: "1x60 2x30"},
	},
	{
		alert: "BurstletNodeWithoutLease", at: "20m", labels: onNode,
		fires: map[string]string{`burstlet_node_without_lease{job="burstlet",node="n"}`: "1x90"},
		// a restart of the API server
		quiet: map[string]string{`burstlet_node_without_lease{job="burstlet",node="n"}`: "0x17 1x1 0x70"},
	},
	{
		alert: "BurstletNodeHeldTwice", at: "20m", labels: onNode,
		fires: map[string]string{`burstlet_node_foreign_lease_renewals_total{job="burstlet",node="n"}`: "0+3x90"},
		// a restored backup
		quiet: map[string]string{`burstlet_node_foreign_lease_renewals_total{job="burstlet",node="n"}`: "0x15 1x75"},
	},
	{
		alert: "BurstletNodeNotReady", at: "15m", labels: onNode,
		fires: map[string]string{`burstlet_node_ready{job="burstlet",node="n"}`: "0x90"},
		quiet: map[string]string{`burstlet_node_ready{job="burstlet",node="n"}`: "1x14 0x1 1x70"},
	},
	{
		alert: "BurstletListingStale", at: "10m", labels: onNode,
		fires: map[string]string{`kubelet_pleg_last_seen_seconds{job="burstlet",node="n"}`: "60x90"},
		quiet: map[string]string{`kubelet_pleg_last_seen_seconds{job="burstlet",node="n"}`: "0+60x90"},
	},
	{
		alert: "BurstletRemoteErrors", at: "40m", labels: onNode,
		fires: map[string]string{
			`burstlet_backend_errors_total{job="burstlet",node="n",class="Unavailable",operation_type="status"}`: "0+30x90",
			`kubelet_runtime_operations_total{job="burstlet",node="n",operation_type="status"}`:                  "0+60x90",
		},
		quiet: map[string]string{ // what lies in the pods, and no room
			`burstlet_backend_errors_total{job="burstlet",node="n",class="Invalid",operation_type="run_podsandbox"}`:  "0+30x90",
			`burstlet_backend_errors_total{job="burstlet",node="n",class="Capacity",operation_type="run_podsandbox"}`: "0+30x90",
			`kubelet_runtime_operations_total{job="burstlet",node="n",operation_type="run_podsandbox"}`:               "0+60x90",
		},
	},
	{
		alert: "BurstletRemoteDenied", at: "30m", labels: with("operation_type", "status"),
		fires: map[string]string{
			`burstlet_backend_errors_total{job="burstlet",node="n",class="Denied",operation_type="status"}`: "0+1x90",
		},
		quiet: map[string]string{
			`burstlet_backend_errors_total{job="burstlet",node="n",class="Unavailable",operation_type="status"}`: "0+1x90",
		},
	},
}

var podCases = []alertCase{
	{
		alert: "BurstletPodsDoNotStart", at: "60m", labels: onNode,
		fires: map[string]string{`burstlet_pod_start_oldest_seconds{job="burstlet",node="n"}`: "0+60x90"},
		quiet: map[string]string{`burstlet_pod_start_oldest_seconds{job="burstlet",node="n"}`: "900x90"},
	},
	{
		alert: "BurstletPodsDoNotEnd", at: "30m", labels: onNode,
		fires: map[string]string{`burstlet_pod_end_overdue_seconds{job="burstlet",node="n"}`: "0+60x90"},
		quiet: map[string]string{`burstlet_pod_end_overdue_seconds{job="burstlet",node="n"}`: "60x90"},
	},
	{
		alert: "BurstletPodStartSlow", at: "60m", labels: onNode,
		fires: map[string]string{
			`kubelet_pod_start_duration_seconds_bucket{job="burstlet",node="n",le="300"}`:  "0+1x90",
			`kubelet_pod_start_duration_seconds_bucket{job="burstlet",node="n",le="600"}`:  "0+20x90",
			`kubelet_pod_start_duration_seconds_bucket{job="burstlet",node="n",le="+Inf"}`: "0+20x90",
		},
		quiet: map[string]string{ // one in twenty
			`kubelet_pod_start_duration_seconds_bucket{job="burstlet",node="n",le="300"}`:  "0+19x90",
			`kubelet_pod_start_duration_seconds_bucket{job="burstlet",node="n",le="600"}`:  "0+20x90",
			`kubelet_pod_start_duration_seconds_bucket{job="burstlet",node="n",le="+Inf"}`: "0+20x90",
		},
	},
	{
		alert: "BurstletPodsRejected", at: "30m", labels: with("reason", "UnsupportedByBackend"),
		fires: map[string]string{
			`kubelet_admission_rejections_total{job="burstlet",node="n",reason="UnsupportedByBackend"}`: "0+1x90",
		},
		quiet: map[string]string{
			`kubelet_admission_rejections_total{job="burstlet",node="n",reason="UnsupportedByBackend"}`: "0x20 2x70",
		},
	},
}

var apiCases = []alertCase{
	{
		alert: "BurstletStatusLate", at: "30m", labels: onNode,
		fires: map[string]string{`burstlet_status_oldest_pending_seconds{job="burstlet",node="n"}`: "0+60x90"},
		quiet: map[string]string{`burstlet_status_oldest_pending_seconds{job="burstlet",node="n"}`: "2x90"},
	},
	{
		alert: "BurstletAPIErrors", at: "40m", labels: onNode,
		fires: map[string]string{
			`rest_client_requests_total{job="burstlet",node="n",code="<error>",method="GET"}`: "0+5x90",
			`rest_client_requests_total{job="burstlet",node="n",code="200",method="GET"}`:     "0+60x90",
		},
		quiet: map[string]string{ // answers of normal work
			`rest_client_requests_total{job="burstlet",node="n",code="404",method="GET"}`: "0+30x90",
			`rest_client_requests_total{job="burstlet",node="n",code="409",method="PUT"}`: "0+30x90",
			`rest_client_requests_total{job="burstlet",node="n",code="200",method="GET"}`: "0+60x90",
		},
	},
	{
		alert: "BurstletCertificateRenewalFails", at: "60m", labels: with("certificate", "client"),
		fires: map[string]string{
			`kubelet_certificate_manager_client_expiration_renew_errors{job="burstlet",node="n"}`: "0x30 1x60",
			`kubelet_server_expiration_renew_errors{job="burstlet",node="n"}`:                     "0x90",
		},
		quiet: map[string]string{`kubelet_server_expiration_renew_errors{job="burstlet",node="n"}`: "0x90"},
	},
	{
		alert: "BurstletCertificateExpires", at: "60m", labels: with("certificate", "serving"),
		fires: map[string]string{
			`kubelet_certificate_manager_client_ttl_seconds{job="burstlet",node="n"}`: "900000x90",
			`kubelet_certificate_manager_server_ttl_seconds{job="burstlet",node="n"}`: "14000-60x90",
		},
		quiet: map[string]string{
			`kubelet_certificate_manager_client_ttl_seconds{job="burstlet",node="n"}`: "86400-60x90",
			`kubelet_certificate_manager_server_ttl_seconds{job="burstlet",node="n"}`: "86400-60x90",
		},
	},
}

var criCases = []alertCase{
	{
		alert: "BurstletLinkDown", at: "10m", labels: onNode,
		fires: map[string]string{
			`burstlet_cri_link_up{job="burstlet",node="n",connection="control"}`: "1x90",
			`burstlet_cri_link_up{job="burstlet",node="n",connection="streams"}`: "0x90",
		},
		quiet: map[string]string{`burstlet_cri_link_up{job="burstlet",node="n",connection="control"}`: "1x90"},
	},
	{
		alert: "BurstletLinkRefused", at: "30m", labels: with("reason", "host_key"),
		fires: map[string]string{
			`burstlet_cri_link_failures_total{job="burstlet",node="n",connection="control",reason="host_key"}`: "0+1x90",
		},
		quiet: map[string]string{ // a host that is away is for BurstletLinkDown
			`burstlet_cri_link_failures_total{job="burstlet",node="n",connection="control",reason="reach"}`:    "0+1x90",
			`burstlet_cri_link_failures_total{job="burstlet",node="n",connection="control",reason="host_key"}`: "0x90",
		},
	},
	{
		alert: "BurstletLinkUnstable", at: "60m", labels: onNode,
		fires: map[string]string{`burstlet_cri_link_losses_total{job="burstlet",node="n",connection="control"}`: "0+1x90"},
		quiet: map[string]string{`burstlet_cri_link_losses_total{job="burstlet",node="n",connection="control"}`: "0x40 1x50"},
	},
	{
		alert: "BurstletLinkSlow", at: "30m", labels: onNode,
		fires: map[string]string{
			`burstlet_cri_link_round_trip_seconds{job="burstlet",node="n",connection="control"}`: "0.8x90",
		},
		quiet: map[string]string{
			`burstlet_cri_link_round_trip_seconds{job="burstlet",node="n",connection="control"}`: "0.05x25 3x2 0.05x90",
		},
	},
	{
		alert: "BurstletImageDiskFull", at: "40m", labels: onNode,
		fires: map[string]string{
			`burstlet_image_filesystem_bytes{job="burstlet",node="n",kind="used"}`:     "95x90",
			`burstlet_image_filesystem_bytes{job="burstlet",node="n",kind="capacity"}`: "100x90",
		},
		quiet: map[string]string{
			`burstlet_image_filesystem_bytes{job="burstlet",node="n",kind="used"}`:     "86x90",
			`burstlet_image_filesystem_bytes{job="burstlet",node="n",kind="capacity"}`: "100x90",
		},
	},
	{
		alert: "BurstletPodsEvicted", at: "40m",
		labels: map[string]string{"node": "n", "eviction_signal": "memory.available"},
		fires: map[string]string{
			`kubelet_evictions{job="burstlet",node="n",eviction_signal="memory.available"}`: "0x30 1x60",
		},
		quiet: map[string]string{
			`kubelet_evictions{job="burstlet",node="n",eviction_signal="memory.available"}`: "0x15 1x75",
		},
	},
}

var ecsCases = []alertCase{
	{
		alert: "BurstletECSThrottled", at: "40m", labels: map[string]string{"node": "n", "service": "ECS", "call": "RunTask"},
		fires: map[string]string{
			`burstlet_ecs_requests_total{job="burstlet",node="n",service="ECS",call="RunTask",outcome="Throttled"}`: "0+60x90",
		},
		quiet: map[string]string{
			`burstlet_ecs_requests_total{job="burstlet",node="n",service="ECS",call="RunTask",outcome="Throttled"}`: "0+1x90",
		},
	},
	{
		alert: "BurstletECSQueue", at: "20m", labels: onNode,
		fires: map[string]string{`burstlet_ecs_requests_waiting{job="burstlet",node="n",call="RunTask"}`: "2000x90"},
		quiet: map[string]string{`burstlet_ecs_requests_waiting{job="burstlet",node="n",call="RunTask"}`: "800x90"},
	},
	{
		alert: "BurstletECSNoCapacity", at: "40m", labels: onNode,
		fires: map[string]string{
			`burstlet_backend_errors_total{job="burstlet",node="n",operation_type="run_podsandbox",class="Capacity"}`: "0+1x90",
		},
		quiet: map[string]string{
			`burstlet_backend_errors_total{job="burstlet",node="n",operation_type="run_podsandbox",class="Throttled"}`: "0+1x90",
		},
	},
	{
		alert: "BurstletECSDenied", at: "40m",
		labels: map[string]string{"node": "n", "service": "Secrets Manager", "call": "CreateSecret"},
		fires: map[string]string{
			`burstlet_ecs_requests_total{job="burstlet",node="n",service="Secrets Manager",call="CreateSecret",outcome="Denied"}`: "0+1x90",
		},
		quiet: map[string]string{
			`burstlet_ecs_requests_total{job="burstlet",node="n",service="Secrets Manager",call="CreateSecret",outcome="ok"}`: "0+1x90",
		},
	},
	{
		alert: "BurstletECSCostRises", at: "225m", labels: onNode,
		fires: map[string]string{`burstlet_ecs_dollars_per_hour{job="burstlet",node="n",capacity="spot"}`: "1x180 10x60"},
		quiet: map[string]string{`burstlet_ecs_dollars_per_hour{job="burstlet",node="n",capacity="spot"}`: "1x180 2x60"},
	},
}
