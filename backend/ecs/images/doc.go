// Package images looks up what images say of themselves, for containers of which the pod
// does not say what they run or as whom. [LookUp] asks for those of a launch, [Cache]
// asks once for what many want at a time, registry.go asks registries, with burstlet's own
// logins to ECR (ecr.go) where the pod brings none, and [Known] keeps what they said, for
// all nodes of a process.
//
// It imports taskdef, which says what must be known of an image, and awscall.
package images
