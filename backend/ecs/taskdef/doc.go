// Package taskdef says what a pod becomes on ECS: which of its fields are honoured
// ([Checker], by the one table in fields.go), its task definition, and the overrides of
// one RunTask ([Translate]). It is pure: what must be asked of AWS or of a registry is
// handed in as [Refs] and [Images], so that the same launch is the same request to the
// byte, today and by another process.
//
// A definition is of the pods of one shape: what differs between them stands in the
// overrides, and what is secret in neither. settings.go is the node's configuration
// with the pod's annotations over it; containers.go, env.go, health.go, supervise.go
// and volumes.go translate the parts; efs.go, s3files.go and ebs.go the volumes that
// AWS has; place.go says where each try of a launch goes; explain.go shows it all to
// people.
//
// It is larger than other packages because checking and translating a field are two
// halves of one rule, and stand beside each other. It imports fargate, identity, and
// intask for what the program in the task is told.
package taskdef
