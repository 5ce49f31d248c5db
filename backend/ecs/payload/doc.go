// Package payload keeps in Secrets Manager what tasks need and may not stand in their
// definitions or overrides: values of Secrets, files of volumes, logins to registries.
// [Store.Ensure] stores it before a launch (store.go: what pods of one shape share;
// pods.go: what is a pod's alone, encrypted), [Store.Refresh] what changed of a pod that
// runs, [Store.Release] deletes it with the pod; garbage.go finds what is left. The
// program in the task fetches it (package intask).
//
// secrets.go is Secrets Manager within its rate limits, with the secrets of one node.
// The package imports taskdef for what of a launch is to be stored, awscall, identity
// and intask.
package payload
