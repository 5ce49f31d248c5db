// Package payload keeps what tasks need and may not stand in their definitions or
// overrides: values of Secrets, files of volumes, logins to registries. What pods of one
// shape share is in Secrets Manager (store.go), for ECS gives it to containers from there;
// what is a pod's alone (pods.go) is encrypted, and in S3 where a bucket is configured,
// else in Secrets Manager too.
//
// [Store.Ensure] stores it before a launch, [Store.Refresh] what changed of a pod that runs,
// [Store.Release] deletes it with the pod; garbage.go finds what is left, and sweep.go all of
// a node that goes for good, with what no listing shows yet (unlisted.go). The program in
// the task fetches it (package intask).
//
// secrets.go is Secrets Manager within its rate limits and objects.go is S3, each with what
// is of one node; keeper.go is what both do for pods, quota.go what Secrets Manager's quota
// of versions takes. The package imports taskdef for what of a launch is to be stored,
// awscall, identity and intask.
//
// It is large because what is kept, renewed, collected and swept has one set of names, and
// the ledger of what a process made sees each secret that is made and removed.
package payload
