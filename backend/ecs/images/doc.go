// Package images looks up what images say of themselves, for containers of which the pod
// does not say what they run or as whom. [LookUp] asks for those of a launch, [Cache]
// keeps what a registry said, registry.go asks registries, with burstlet's own logins to
// ECR (ecr.go) where the pod brings none.
//
// It imports taskdef, which says what must be known of an image, and awscall.
package images
