package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/burstlet/burstlet/backend/cri/criconfig"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/fargate"
	"github.com/burstlet/burstlet/syncloop/eviction"
)

// schema is a JSON schema, draft 7.
type schema = map[string]any

// Texts that fields take, as patterns that Go and JavaScript read alike.
const (
	digits       = `([0-9]+(\.[0-9]*)?|\.[0-9]+)`
	durationForm = `(0|(` + digits + `(ns|us|µs|μs|ms|s|m|h))+)`
	quantityForm = digits + `([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?`
	ipv4         = `((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`
	ipv6         = `[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*`
	portForm     = `[0-9]*[1-9][0-9]*`
	hostForm     = `[^/?#@:\[\]\s]+@([^/?#@:\[\]\s]+|\[` + ipv6 + `\])(:[0-9]+)?`
	cleanPath    = `(/([^./][^/]*|\.[^./][^/]*|\.\.[^/]+))+`
	label        = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	percentForm  = digits + `%`
	domain       = label + `(\.` + label + `)*`
	labelWord    = `[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?`
)

func matches(form string) schema { return schema{"pattern": "^(" + form + ")$"} }

// bySignal takes texts of a form under the signals of evictions.
func bySignal(form string) schema {
	var signals []string
	for _, s := range eviction.Signals() {
		signals = append(signals, string(s))
	}
	return schema{
		"propertyNames":        schema{"enum": anys(signals)},
		"additionalProperties": schema{"type": "string", "pattern": "^(" + form + ")$"},
	}
}

// orEmpty takes a text of a form, or none.
func orEmpty(form string) schema { return schema{"pattern": "^(" + form + ")?$"} }

func atLeast(n int) schema { return schema{"minimum": n} }

func between(low, high int) schema { return schema{"minimum": low, "maximum": high} }

// zeroOr takes 0, which stands for the default.
func zeroOr(limits schema) schema { return schema{"anyOf": []any{schema{"const": 0}, limits}} }

func oneOfThese(values []string) schema { return schema{"enum": anys(values)} }

// oneOfOr takes an empty text too, which stands for the default.
func oneOfOr(values []string) schema { return schema{"enum": anys(append(slices.Clone(values), ""))} }

func each(limits schema) schema { return schema{"items": limits} }

func anys(values []string) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

func both(a, b schema) schema {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func atMost(length int, limits schema) schema { return both(limits, schema{"maxLength": length}) }

// Durations and quantities of some sign.
func notNegative(form string) schema { return matches(`\+?` + form) }

func positive(form string) schema {
	return schema{"allOf": []any{notNegative(form), schema{"pattern": `[1-9].*`}}}
}

// maxKey is the length of the longest key of a label: a domain, a slash, a name.
const maxKey = validation.DNS1123SubdomainMaxLength + 1 + 63

// limits are what fields take beyond their types, by type and key. What it says
// and what Validate says is compared value by value (agree_test.go).
func limits() map[string]schema {
	ip, dir := orEmpty(ipv4+"|"+ipv6), orEmpty(cleanPath)
	name := matches(`(` + domain + `/)?` + labelWord)
	qualified := schema{"propertyNames": atMost(maxKey, name)}
	percent := between(minPercent, maxPercent)
	amount := both(matches(`\+?`+quantityForm), schema{"minimum": 0})
	span := notNegative(durationForm)
	price := schema{"type": "number", "exclusiveMinimum": 0, "maximum": ecsconfig.MaxPrice}
	return map[string]schema{
		"Configuration.apiVersion":         {"const": APIVersion},
		"Configuration.kind":               {"const": Kind},
		"Configuration.clusterDNS":         each(matches(ipv4 + "|" + ipv6)),
		"Configuration.clusterDomain":      atMost(validation.DNS1123SubdomainMaxLength+1, matches(domain+`\.?`)),
		"Configuration.healthzBindAddress": matches(ipv4 + "|" + ipv6),
		"Configuration.healthzPort":        between(0, 65535),
		"Node.name":                        atMost(validation.DNS1123SubdomainMaxLength, orEmpty(domain)),
		"Node.onOtherProcess":              oneOfThese(otherProcesses()),
		"Node.identity":                    atMost(maxIdentity, orEmpty("[!-~]+")),
		"Node.labels": both(
			qualified,
			schema{"additionalProperties": schema{"type": []any{"string", "null"}, "pattern": "^(" + labelWord + ")?$"}},
		),
		"Node.annotations":                 qualified,
		"Node.internalIP":                  ip,
		"Capacity.cpu":                     amount,
		"Capacity.memory":                  amount,
		"Capacity.pods":                    amount,
		"Capacity.ephemeral-storage":       amount,
		"Taint.key":                        both(atMost(maxKey, name), schema{"type": "string"}),
		"Taint.value":                      orEmpty(labelWord),
		"Taint.effect":                     both(oneOfThese(taintEffects()), schema{"type": "string"}),
		"Client.qps":                       {"exclusiveMinimum": 0},
		"Client.burst":                     atLeast(minBurst),
		"Backend.type":                     oneOfThese(backends()),
		"Sim.socket":                       orEmpty("unix:///.*"),
		"Sim.granularity":                  oneOfOr(granularities()),
		"CRI.endpoint":                     orEmpty("unix:///.*|" + criconfig.SSHScheme + hostForm),
		"CRI.runtimeSocket":                dir,
		"CRI.podsDir":                      dir,
		"CRI.seccompProfileRoot":           dir,
		"CRI.podLogsDir":                   dir,
		"CRI.containerLogsDir":             dir,
		"CRI.resolvConf":                   dir,
		"CRI.containerLogMaxSize":          {"exclusiveMinimum": 0, "allOf": positive(quantityForm)["allOf"]},
		"CRI.containerLogMaxFiles":         zeroOr(atLeast(criconfig.MinLogFiles)),
		"SystemReserved.cpu":               amount,
		"SystemReserved.memory":            amount,
		"SystemReserved.ephemeral-storage": amount,
		"SystemReserved.pid":               amount,
		"CRI.podPidsLimit":                 atLeast(0),
		"MemorySwap.swapBehavior":          oneOfOr(criconfig.SwapBehaviors()),
		"CRI.cgroupParent":                 atMost(validation.DNS1123LabelMaxLength, orEmpty(label)),
		"CRI.cgroupDriver":                 oneOfOr(criconfig.CgroupDrivers()),
		"SSH.keyFiles":                     each(schema{"minLength": 1}),
		"SSH.jumpHosts":                    each(matches(hostForm)),
		"SSH.keepalive":                    span,
		"SSH.keepaliveMax":                 zeroOr(atLeast(criconfig.MinKeepaliveMax)),
		"ECS.region":                       matches(ecsconfig.RegionForm),
		"ECS.cluster":                      {"minLength": 1},
		"ECS.subnets": both(
			each(matches(ecsconfig.SubnetForm)), schema{"minItems": 1, "maxItems": ecsconfig.MaxSubnets},
		),
		"ECS.securityGroups": both(
			each(matches(ecsconfig.GroupForm)), schema{"maxItems": ecsconfig.MaxSecurityGroups},
		),
		"ECS.executionRoleARN": orEmpty(ecsconfig.RoleForm),
		"ECS.taskRoleARN":      orEmpty(ecsconfig.RoleForm),
		"ECS.taskImage":        {"maxLength": ecsconfig.MaxImage},
		"ECS.platformVersion":  orEmpty(ecsconfig.VersionForm),
		"ECS.eventQueueURL":    orEmpty(ecsconfig.QueueForm),
		"ECS.payloadBucket":    orEmpty(ecsconfig.BucketForm),
		"ECS.payloadPrefix":    atMost(ecsconfig.MaxKeyPrefix, orEmpty(ecsconfig.KeyPrefixForm)),
		"ECS.cpuArchitecture":  oneOfOr(ecsconfig.Architectures()),
		"ECS.clusterDNS":       oneOfOr([]string{DNSRouted}),
		"ECS.refresh":          span,
		"ECS.stats":            oneOfOr([]string{StatsSessions}),
		"ECS.capacityTypes": both(
			each(oneOfThese(ecsconfig.CapacityTypes())), schema{"uniqueItems": true},
		),
		"ECS.ephemeralStorageGiB":                   zeroOr(between(fargate.MinStorageGiB, fargate.MaxStorageGiB)),
		"ECS.settle":                                span,
		"ECS.unusedAfter":                           span,
		"ECSVolumes.roleARN":                        matches(ecsconfig.RoleForm),
		"ECSVolumes.kmsKeyID":                       orEmpty(ecsconfig.KeyForm),
		"ECSVolumes.volumeType":                     oneOfOr(ecsconfig.VolumeTypes()),
		"ECSVolumes.filesystemType":                 oneOfOr(ecsconfig.FilesystemTypes()),
		"ECSPrices.vcpu":                            price,
		"ECSPrices.gb":                              price,
		"ECSPrices.armVCPU":                         price,
		"ECSPrices.armGB":                           price,
		"ECSPrices.storageGB":                       between(0, ecsconfig.MaxPrice),
		"ECSPrices.ebsGB":                           between(0, ecsconfig.MaxPrice),
		"ECSPrices.spotFactor":                      between(0, 1),
		"KubeletAPI.address":                        ip,
		"KubeletAPI.port":                           between(1, 65535),
		"KubeletAPI.signerName":                     orEmpty("[^/]+/.+"),
		"Pods.apiServer":                            orEmpty(`(` + ipv4 + `|\[` + ipv6 + `\]):` + portForm),
		"Pods.maxParallelImagePulls":                atLeast(minParallelPulls),
		"CRI.shutdownGracePeriod":                   span,
		"CRI.shutdownGracePeriodCriticalPods":       span,
		"ShutdownGroup.shutdownGracePeriodSeconds":  between(0, maxShutdownSeconds),
		"Pods.staticPodPath":                        orEmpty(`/.*`),
		"Pods.staticPodURL":                         orEmpty(`https?://[^/?#\s]+\S*`),
		"HostPath.pathPrefix":                       both(matches(`/|`+cleanPath), schema{"type": "string"}),
		"Images.imageGCHighThresholdPercent":        percent,
		"Images.imageGCLowThresholdPercent":         percent,
		"Images.imageMinimumGCAge":                  span,
		"Images.imageMaximumGCAge":                  span,
		"Images.nodeStatusMaxImages":                atLeast(minStatusImages),
		"Images.imageCredentialProviderConfigFile":  orEmpty(`/.*`),
		"Images.imageCredentialProviderBinDir":      orEmpty(`/.*`),
		"Eviction.evictionHard":                     bySignal(`\+?` + quantityForm + "|" + percentForm),
		"Eviction.evictionSoft":                     bySignal(`\+?` + quantityForm + "|" + percentForm),
		"Eviction.evictionSoftGracePeriod":          bySignal(`\+?` + durationForm),
		"Eviction.evictionMinimumReclaim":           bySignal(`\+?` + quantityForm + "|" + percentForm),
		"Eviction.evictionMaxPodGracePeriod":        atLeast(0),
		"Eviction.evictionPressureTransitionPeriod": span,
		"LeaderElection.namespace":                  atMost(validation.DNS1123LabelMaxLength, orEmpty(label)),
		"LeaderElection.name":                       atMost(validation.DNS1123SubdomainMaxLength, orEmpty(domain)),
		"LeaderElection.leaseDuration":              positive(durationForm),
		"LeaderElection.renewDeadline":              positive(durationForm),
		"LeaderElection.retryPeriod":                positive(durationForm),
		"Logging.level":                             oneOfThese(logLevels()),
		"Logging.format":                            oneOfThese(logFormats()),
		"Shutdown.flushTimeout":                     span,
		"Shutdown.mode":                             oneOfThese(shutdownModes()),
		"Shutdown.gracePeriod":                      span,
		"Shutdown.gracePeriodCriticalPods":          span,
	}
}

// rules are what fields of one mapping ask of each other, by type.
func rules() map[string]schema {
	var sections []any
	for _, kind := range backends() {
		others := schema{}
		for _, other := range backends() {
			if other != kind {
				others[other] = schema{"type": "null"}
			}
		}
		sections = append(sections, schema{
			"if":   schema{"required": []any{"type"}, "properties": schema{"type": schema{"const": kind}}},
			"then": schema{"properties": others},
		})
	}
	none, some := schema{"maxLength": 0}, schema{"minLength": 1}
	return map[string]schema{
		"Backend":  {"allOf": sections},
		"Taint":    {"required": []any{"key", "effect"}},
		"HostPath": {"required": []any{"pathPrefix"}},
		"Configuration": {
			"required": []any{"apiVersion", "kind"},
			"if": schema{
				"required": []any{"nodes"}, "properties": schema{"nodes": schema{"type": "array", "minItems": 1}},
			},
			"then": schema{"properties": schema{"node": schema{"properties": schema{"name": none, "identity": none}}}},
			"else": schema{"properties": schema{"node": schema{"properties": schema{"name": some}}}},
		},
	}
}

// generator makes definitions of types.
type generator struct {
	limits      map[string]schema
	defaults    map[string]any
	definitions schema
	used        map[string]bool
}

// newSchema returns the schema of the file.
func newSchema() (schema, *generator) {
	g := &generator{limits: limits(), defaults: defaults(), definitions: schema{}, used: map[string]bool{}}
	g.of(reflect.TypeFor[Configuration]())
	return schema{
		"$schema":     "http://json-schema.org/draft-07/schema#",
		"title":       Kind,
		"$ref":        "#/definitions/Configuration",
		"definitions": g.definitions,
	}, g
}

// key is a field's name in the file.
func key(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// of is what a value of a type looks like. Nothing at all stands for the default,
// as everywhere in YAML.
func (g *generator) of(t reflect.Type) schema {
	nullable := func(kind string) schema { return schema{"type": []any{kind, "null"}} }
	switch t {
	case reflect.TypeFor[Duration]():
		return schema{"type": "string", "pattern": "^[-+]?" + durationForm + "$"}
	case reflect.TypeFor[Quantity]():
		return schema{"type": []any{"string", "number", "null"}, "pattern": "^[-+]?" + quantityForm + "$"}
	case reflect.TypeFor[metav1.Time]():
		return both(nullable("string"), schema{"format": "date-time"})
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.String:
		return nullable("string")
	case reflect.Bool:
		return nullable("boolean")
	case reflect.Int, reflect.Int32, reflect.Int64:
		return nullable("integer")
	case reflect.Float32, reflect.Float64:
		return nullable("number")
	case reflect.Slice:
		return both(nullable("array"), schema{"items": g.of(t.Elem())})
	case reflect.Map:
		return both(nullable("object"), schema{"additionalProperties": g.of(t.Elem())})
	case reflect.Struct:
		if g.definitions[t.Name()] == nil {
			g.define(t)
		}
		return schema{"$ref": "#/definitions/" + t.Name()}
	default:
		panic("no schema for " + t.String())
	}
}

func (g *generator) define(t reflect.Type) {
	properties := schema{}
	definition := schema{"type": []any{"object", "null"}, "properties": properties, "additionalProperties": false}
	g.definitions[t.Name()] = definition
	if doc := docs().types[t.Name()]; doc != "" {
		definition["description"] = doc
	}
	for _, f := range fields(t) {
		properties[f.key] = g.property(t, f)
	}
	maps.Copy(definition, rules()[t.Name()])
}

func (g *generator) property(t reflect.Type, f fieldOf) schema {
	path := t.Name() + "." + f.key
	property := g.of(f.kind)
	if limit := g.limits[g.common(t, f.key)]; limit != nil {
		g.used[g.common(t, f.key)] = true
		property = narrow(property, limit)
	}
	switch path {
	case "Node.taints", "Pods.hostPaths":
		property["items"] = schema{"type": "object", "allOf": []any{property["items"]}}
	case "Configuration.nodes":
		property["items"] = schema{"type": "object", "allOf": []any{property["items"], schema{
			"required": []any{"node"}, "properties": schema{"node": schema{
				"type": "object", "required": []any{"name"}, "properties": schema{"name": schema{"type": "string", "minLength": 1}},
			}},
		}}}
	}
	if _, isRef := property["$ref"]; isRef { // beside which nothing else counts
		property = schema{"allOf": []any{property}}
	}
	if f.doc != "" {
		property["description"] = f.doc
	}
	if value, ok := g.defaults[path]; ok {
		property["default"] = value
	}
	return property
}

// common is the path of the field that a field of an entry of nodes is judged as.
func (g *generator) common(t reflect.Type, key string) string {
	if t == reflect.TypeFor[NodeEntry]() {
		return "Configuration." + key
	}
	return t.Name() + "." + key
}

// narrow adds limits to a type. A constant needs no type, a list of values takes
// nothing at all where the type does.
func narrow(property, limit schema) schema {
	property = maps.Clone(property)
	if kind := limit["type"]; kind != nil {
		property["type"] = kind
	}
	for word, value := range limit {
		switch word {
		case "items":
			items := narrow(property["items"].(schema), value.(schema))
			property["items"] = both(items, schema{"type": "string"})
		case "const":
			return schema{"const": value}
		case "enum":
			property["enum"] = value
			if _, nullable := property["type"].([]any); nullable {
				property["enum"] = append(slices.Clone(value.([]any)), nil)
			}
		default:
			property[word] = value
		}
	}
	if options, ok := property["anyOf"].([]any); ok {
		property["anyOf"] = append([]any{schema{"type": "null"}}, options...)
	}
	return property
}

// fieldOf is a field as a file has it.
type fieldOf struct {
	key, doc string
	kind     reflect.Type
}

// fields are those of a struct, in their order there.
func fields(t reflect.Type) []fieldOf {
	var all []fieldOf
	for f := range fieldsOf(t) {
		switch {
		case f.Type == reflect.TypeFor[metav1.TypeMeta]():
			for _, name := range []string{"apiVersion", "kind"} {
				all = append(all, fieldOf{name, "The type of the file. Required.", reflect.TypeFor[string]()})
			}
		case t == reflect.TypeFor[corev1.Taint]():
			all = append(all, fieldOf{key(f), corev1.Taint{}.SwaggerDoc()[key(f)], f.Type})
		default:
			all = append(all, fieldOf{key(f), docs().fields[t.Name()+"."+f.Name], f.Type})
		}
	}
	return all
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}
