// Package config is burstlet's configuration: one YAML file, environment
// variables and flags, the later above the earlier.
//
//	types.go     the file's shape: meaning, unit and default of every field
//	values.go    durations and quantities as they stand in a file
//	default.go   what holds where nothing is said
//	decode.go    strict reading: an unknown key is an error that names it
//	settings.go  the fields that a flag or a variable can give as well
//	load.go      file, environment and flags in their order
//	validate.go  every wrong value at once, each by its path in the file
//	limits.go    the values and bounds that it and the schema are made of
//
// reference_test.go makes docs/configuration.md and the JSON schema of the file out
// of the types, their comments, defaults and limits; agree_test.go holds the schema
// to what [Load] says.
//
// What a file says of the cri and ecs backends is judged by those backends' own rules
// (backend/cri/criconfig, backend/ecs/ecsconfig). Beside them the package knows no backend and no Kubernetes
// client: package cmd/burstlet/backends turns a [Configuration] into those.
//
// It is large because the file's shape stands in it whole, with the meaning, the default and
// the rules of each field, which tests hold to each other.
package config
