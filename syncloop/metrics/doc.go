// Package metrics has the metrics of one engine, under the kubelet's names where it has
// them: a [Set] is what an engine reports to, as things happen.
//
// It owns the descriptions, labels and buckets of these metrics, and bounds what labels
// can say. metrics.go has counters and durations, resizes.go those of resizes, and
// pod_start.go the latency of starts as the API's clients see it, each pod with a
// [PodStart] of its own. Gauges are counted when somebody asks (gauges.go), of what
// [Watched] lends.
//
// It may import packages plan, eviction, images, podsource and allocation for what they
// call things, and the backend's facts. It knows neither the loop nor its workers.
package metrics
