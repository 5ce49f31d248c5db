// Package ecsconfig is the configuration of package backend/ecs: its fields, defaults and
// rules. It is small, so that package cmd/burstlet/config judges a file by the very rules
// by which the backend judges what it is made with.
//
//	config.go    what a node has, and what is wrong with it
//	values.go    what single values may be, in annotations of pods too
//
// It imports what Fargate sells, and nothing else of the project.
package ecsconfig
