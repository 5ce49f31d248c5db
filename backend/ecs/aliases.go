package ecs

import "github.com/burstlet/burstlet/backend/ecs/fargate"

// Rates are the prices of running Linux tasks, in US dollars an hour.
type Rates = fargate.Rates
