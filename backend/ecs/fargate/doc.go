// Package fargate is what Fargate sells: sizes of tasks, ephemeral storage, and what
// they and volumes of Amazon EBS cost. It is pure and knows nothing of pods.
package fargate
