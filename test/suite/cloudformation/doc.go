// Package cloudformation tests the template deploy/aws/burstlet.yaml: it evaluates it as
// CloudFormation would for each way of using it, and compares what comes of it with the
// policies of deploy/aws, with the limits of IAM, and with what the quick start fills in.
package cloudformation
