package taskdef

import "github.com/burstlet/burstlet/backend/ecs/ecsconfig"

// Config is a node's configuration.
type Config = ecsconfig.Config

// EBS says how a node has volumes made that pods want for themselves.
type EBS = ecsconfig.EBS
